// attention: out = softmax(scale q k^T) v for each head under a mask; several heads of q share one of k and v.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/ops/make.h"
#include "compiler/tools/float64/arithmetic.h"
#include "compiler/tools/float64/rules.h"
#include "device/mask.h"

namespace llmc::float64 {
namespace {

/// A sequence of one head inside packed rows.
struct Head {
  const double* data;
  std::int64_t pitch;
  const double* row(std::int64_t i) const { return data + i * pitch; }
};

/// Returns the head's transpose, [dim, sequence].
std::vector<double> transposed(const Head& head, std::int64_t sequence, std::int64_t dim) {
  std::vector<double> result(static_cast<std::size_t>(sequence * dim));
  for (std::int64_t i = 0; i < sequence; ++i)
    for (std::int64_t d = 0; d < dim; ++d) result[static_cast<std::size_t>(d * sequence + i)] = head.row(i)[d];
  return result;
}

/// Computes out[j] = factor * (`x` . column j) for columns `first` to `last`.
void products(const double* x, const std::vector<double>& columns, std::int64_t sequence, std::int64_t dim,
              std::int64_t first, std::int64_t last, double factor, double* out) {
  std::fill(out + first, out + last + 1, 0.0);
  for (std::int64_t d = 0; d < dim; ++d)
    add_scaled(last + 1 - first, factor * x[d], columns.data() + d * sequence + first, out + first);
}

/// Masks of the sequences of a batch.
class Masks {
 public:
  /// `inputs`: of the op, before the rows of documents.
  Masks(const OpRun& run, std::size_t inputs) : mask_(run.op.as<ops::AttentionAttributes>().mask(run.graph.sequence)) {
    if (!run.op.as<ops::AttentionAttributes>().documents) return;
    for (int i = 0; i < 2; ++i)
      for (std::int64_t token = 0; token < run.graph.tokens(); ++token)
        rows_[i].push_back(static_cast<int>(run.in(inputs + static_cast<std::size_t>(i)).row(0)[token]));
  }

  Mask of(std::int64_t batch) const {
    return rows_[0].empty() ? mask_ : mask_.with_documents(rows_[0].data(), rows_[1].data(), static_cast<int>(batch));
  }

 private:
  Mask mask_;
  std::vector<int> rows_[2];
};

/// Caps scores first to last. Their errors are relative to them, since a cap has a slope of at most 1.
void soft_cap(double cap, std::int64_t first, std::int64_t last, double* scores) {
  for (std::int64_t j = first; cap > 0 && j <= last; ++j) scores[j] = cap * std::tanh(scores[j] / cap);
}

double largest_of(const Head& head, std::int64_t sequence, std::int64_t dim) {
  double most = 0;
  for (std::int64_t i = 0; i < sequence; ++i) most = std::max(most, largest(dim, head.row(i)));
  return most;
}

/// Rotates dq and dk by the rule of RoPE's own backward op. A kernel may have rounded them before, and a rotation adds
/// the errors of the two elements of a pair.
void rotate_back(OpRun& run) {
  const auto& own = run.op.as<ops::AttentionAttributes>();
  const graph::Op op = ops::make::rope_backward(
      run.op.name, {}, {}, ops::RopeAttributes{.heads = own.heads, .rotary = own.heads.dim, .resets = own.resets});
  OpRun rope{run.graph, run.region, op, {run.outputs[0], run.inputs[4]}, {run.outputs[0]}};
  if (own.resets) rope.inputs.push_back(run.inputs[5]);
  rope_backward(rope);
  OpValue& result = run.outputs[0];
  const double rounded = row_of(run.input_type(2)).roundoff / result.noise;
  const std::vector<double>& largest_of_heads = rope.outputs[0].scale;
  for (std::size_t i = 0; i < result.scale.size(); ++i)
    result.scale[i] = std::sqrt(2.0) * (result.scale[i] + rounded * largest_of_heads[i]);
}

bool is_narrow(DType type) { return type != DType::f32; }

/// In bf16 and fp16, kernels round the softmax and its gradient before the products, and these errors add up as a
/// random walk. In fp32 the error is that of the exponential, whose argument is a sum.
double attention_noise(DType type) { return is_narrow(type) ? 4 * row_of(type).roundoff : 64 * kFp32; }

}  // namespace

void attention(OpRun& run) {
  const Matrix &qkv = run.in(0), &out = run.out(0), &lse = run.out(1);
  const auto& own = run.op.as<ops::AttentionAttributes>();
  const auto [query, key, dim] = own.heads;
  const std::int64_t sequence = run.graph.sequence, batch = run.graph.batch;
  const double factor = own.scale();
  const Masks masks(run, 1);
  const bool narrow = is_narrow(run.input_type(0));
  std::vector<double>& scale = run.outputs[0].scales(query);
  std::vector<double>& lse_scale = run.outputs[1].scales(lse.cols);
  run.outputs[0].noise = attention_noise(run.input_type(0));
  run.outputs[1].noise = 64 * kFp32;
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < query; ++h) {
      const Mask mask = masks.of(b);
      const std::int64_t kv = h / (query / key), begin = b * sequence;
      const Head q{qkv.row(begin) + h * dim, qkv.pitch}, k{qkv.row(begin) + (query + kv) * dim, qkv.pitch};
      const Head v{qkv.row(begin) + (query + key + kv) * dim, qkv.pitch};
      const std::vector<double> columns = transposed(k, sequence, dim);
      const double most = largest_of(v, sequence, dim);
      std::vector<double> p(static_cast<std::size_t>(sequence));
      for (std::int64_t i = 0; i < sequence; ++i) {
        const std::int64_t lo = mask.lo(static_cast<int>(i));
        products(q.row(i), columns, sequence, dim, lo, i, factor, p.data());
        soft_cap(own.softcap, lo, i, p.data());
        const double highest = *std::max_element(p.begin() + lo, p.begin() + i + 1);
        double total = 0, squares = 0;
        for (std::int64_t j = lo; j <= i; ++j)
          total += p[static_cast<std::size_t>(j)] = std::exp(p[static_cast<std::size_t>(j)] - highest);
        double* to = out.row(begin + i) + h * dim;
        std::fill(to, to + dim, 0.0);
        for (std::int64_t j = lo; j <= i; ++j) {
          const double share = p[static_cast<std::size_t>(j)] / total;
          squares += share * share;
          add_scaled(dim, share, v.row(j), to);
        }
        const double sum = highest + std::log(total);
        lse.at(b * query + h, i) = sum;
        lse_scale[static_cast<std::size_t>((b * query + h) * lse.cols + i)] = 1 + std::abs(highest) + std::abs(sum);
        scale[static_cast<std::size_t>((begin + i) * query + h)] = most * (narrow ? std::sqrt(squares) : 1.0);
      }
    }
}

/// With a soft cap ds has its slope, 1 - (score / cap)^2. With p from q, k and the log-sum-exp: dv = p^T dout, ds = p
/// (dout v^T - rowsum(dout out)), dq = scale ds k, dk = scale ds^T q (Dao et al. 2022, appendix B). With `rotates`, dq
/// and dk are of q and k before RoPE.
void attention_backward(OpRun& run) {
  const Matrix &dout = run.in(0), &out = run.in(1), &qkv = run.in(2), &lse = run.in(3), &dqkv = run.out(0);
  const auto& own = run.op.as<ops::AttentionAttributes>();
  const auto [query, key, dim] = own.heads;
  const std::int64_t sequence = run.graph.sequence, batch = run.graph.batch, all = query + 2 * key;
  const double factor = own.scale();
  const Masks masks(run, own.rotates ? 5 : 4);
  const bool narrow = is_narrow(run.input_type(2));
  std::vector<double>& scale = run.outputs[0].scales(all);
  run.outputs[0].noise = attention_noise(run.input_type(2));
  run.outputs[1].undefined = true;  // workspace
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t kv = 0; kv < key; ++kv) {
      const Mask mask = masks.of(b);
      const std::int64_t begin = b * sequence, group = query / key;
      const Head k{qkv.row(begin) + (query + kv) * dim, qkv.pitch};
      const Head v{qkv.row(begin) + (query + key + kv) * dim, qkv.pitch};
      const std::vector<double> k_columns = transposed(k, sequence, dim), v_columns = transposed(v, sequence, dim);
      const double most_k = largest_of(k, sequence, dim), most_v = largest_of(v, sequence, dim);
      const auto n = static_cast<std::size_t>(sequence);
      std::vector<double> p(n), ds(n), dk_squares(n), dv_squares(n);
      for (std::int64_t i = 0; i < sequence; ++i) {
        std::fill_n(dqkv.row(begin + i) + (query + kv) * dim, dim, 0.0);
        std::fill_n(dqkv.row(begin + i) + (query + key + kv) * dim, dim, 0.0);
      }
      double most_q = 0, most_d = 0;
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const Head q{qkv.row(begin) + h * dim, qkv.pitch}, d{dout.row(begin) + h * dim, dout.pitch};
        const double head_q = largest_of(q, sequence, dim), head_d = largest_of(d, sequence, dim);
        // In fp32 the error is that of the difference of two sums over a head's elements.
        const double fp32 = head_d * most_v * static_cast<double>(dim);
        const double beside = narrow ? fp32 * kFp32 / row_of(run.input_type(2)).roundoff : 0;
        most_q = std::max(most_q, head_q), most_d = std::max(most_d, head_d);
        for (std::int64_t i = 0; i < sequence; ++i) {
          const std::int64_t lo = mask.lo(static_cast<int>(i));
          products(q.row(i), k_columns, sequence, dim, lo, i, factor, p.data());
          soft_cap(own.softcap, lo, i, p.data());
          products(d.row(i), v_columns, sequence, dim, lo, i, 1, ds.data());
          const double delta = dot(dim, d.row(i), out.row(begin + i) + h * dim), sum = lse.at(b * query + h, i);
          double* dq = dqkv.row(begin + i) + h * dim;
          std::fill(dq, dq + dim, 0.0);
          double squares = 0;
          for (std::int64_t j = lo; j <= i; ++j) {
            const auto at = static_cast<std::size_t>(j);
            const double share = std::exp(p[at] - sum), t = own.softcap > 0 ? p[at] / own.softcap : 0;
            const double slope = share * (ds[at] - delta) * (1 - t * t);
            add_scaled(dim, factor * slope, k.row(j), dq);
            add_scaled(dim, factor * slope, q.row(i), dqkv.row(begin + j) + (query + kv) * dim);
            add_scaled(dim, share, d.row(i), dqkv.row(begin + j) + (query + key + kv) * dim);
            squares += slope * slope;
            dk_squares[at] += narrow ? slope * slope + share * beside * beside : share * fp32;
            dv_squares[at] += narrow ? share * share : share;
          }
          scale[static_cast<std::size_t>((begin + i) * all + h)] =
              factor * most_k * (narrow ? std::sqrt(squares) + beside : fp32);
        }
      }
      for (std::int64_t j = 0; j < sequence; ++j) {
        const auto at = static_cast<std::size_t>(j);
        double* scales = scale.data() + (begin + j) * all;
        scales[query + kv] = factor * most_q * (narrow ? std::sqrt(dk_squares[at]) : dk_squares[at]);
        scales[query + key + kv] = most_d * (narrow ? std::sqrt(dv_squares[at]) : dv_squares[at]);
      }
    }
  if (own.rotates) rotate_back(run);
}

}  // namespace llmc::float64
