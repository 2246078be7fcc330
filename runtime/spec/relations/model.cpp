#include <cctype>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>

#include "spec/advice/synonyms.h"
#include "spec/model_config.h"
#include "spec/recompute.h"
#include "spec/relations/checks.h"
#include "spec/targets.h"
#include "text/plural.h"

namespace llmc::spec {
namespace {

class ModelRelations : RelationChecks {
 public:
  ModelRelations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics) : RelationChecks(bound, diagnostics) {}

  void heads() {
    const Model& m = spec_.model;
    // Widths and numbers of heads that give each head an even number of columns.
    const auto other_sizes = [model = m](const Sound& sound) {
      const std::int64_t hidden = model.hidden_size, heads = model.num_attention_heads;
      std::vector<Edit> edits;
      add_multiples(sound, "model.hidden_size", hidden, heads, edits);
      add_divisors(sound, "model.num_attention_heads", hidden, heads, edits);
      const auto sizes = static_cast<std::ptrdiff_t>(edits.size());
      add_head_dim(sound, hidden / heads, edits);
      if (not_loaded(model).empty() || edits.begin() + sizes == edits.end()) return edits;
      edits.resize(static_cast<std::size_t>(sizes) + 1);
      edits.back().text =
          fmt::format("{}head_dim: {}, which trains, but transformers 5 does not load a Llama of that shape",
                      sizes ? "" : "write ", edits.back().write[0].second);
      return edits;
    };
    if (usable({"model.hidden_size", "model.num_attention_heads"}) && !given("model.head_dim") &&
        m.hidden_size % m.num_attention_heads) {
      fail("E0301",
           fmt::format("hidden_size {} is not divisible by num_attention_heads {}", m.hidden_size,
                       m.num_attention_heads),
           fmt::format("choose sizes that divide with an even head_dim, or set head_dim{}",
                       not_loaded(m).empty() ? "" : ", but transformers 5 does not load such a Llama"),
           other_sizes, {"model.hidden_size", "model.num_attention_heads"});
      return;
    }
    if (!usable({"model.head_dim"})) return;
    if (m.head_dim % 2) {
      if (given("model.head_dim"))
        fail("E0303", fmt::format("head_dim {} is odd, but RoPE rotates pairs", m.head_dim), "write an even head_dim",
             [dim = m.head_dim](const Sound& sound) {
               std::vector<Edit> edits;
               add_multiples(sound, "model.head_dim", dim, 2, edits);
               return edits;
             },
             {"model.head_dim"});
      else
        fail("E0303", fmt::format("hidden_size / num_attention_heads = {} is odd, but RoPE rotates pairs", m.head_dim),
             "choose sizes that give an even head_dim, or set head_dim", other_sizes,
             {"model.hidden_size", "model.num_attention_heads"});
    } else if (usable({"target.kind", "target.arch", "target.attention"}) && spec_.target.kind == TargetKind::cuda) {
      cuda_heads();
    }
  }

  void cuda_heads() {
    const Model& m = spec_.model;
    if (spec_.target.attention != AttentionKind::cudnn) {
      if (m.head_dim > 256)
        fail("E0304", fmt::format("head_dim {} is above 256, the maximum for attention on cuda", m.head_dim),
             "write a head_dim of at most 256", any_of({write("model.head_dim", 256)}),
             {"model.head_dim", "target.kind"});
      return;
    }
    const auto& arch = spec_.target.arch;
    const bool hopper = std::all_of(arch.begin(), arch.end(), [](const std::string& a) { return a.starts_with("90"); });
    const std::int64_t most = hopper ? 256 : 128;  // as attention_refusal()
    if (m.head_dim % 8 == 0 && m.head_dim <= most) return;
    fail("E0304",
         fmt::format("head_dim {} is not a multiple of 8 up to {}, as cuDNN's attention needs", m.head_dim, most),
         "write a head_dim that cuDNN supports, or attention: auto",
         [dim = m.head_dim, most](const Sound& sound) {
           std::vector<Edit> edits;
           if (dim > most)
             add(sound, write("model.head_dim", most), edits);
           else
             add_multiples(sound, "model.head_dim", dim, 8, edits);
           add(sound, write("target.attention", "auto"), edits);
           return edits;
         },
         {"model.head_dim", "target.attention", "target.arch"});
  }

  /// RoPE rotates pairs: an even number of elements, and no fraction of one.
  void rotary_width() {
    const Model& m = spec_.model;
    if (!usable({"model.head_dim", "model.partial_rotary_factor"}) || m.head_dim % 2) return;
    const double width = static_cast<double>(m.head_dim) * m.partial_rotary_factor;
    const std::int64_t whole = m.rotary_dim();
    if (whole >= 2 && whole % 2 == 0 && width - static_cast<double>(whole) < 1e-6) return;
    fail("E0361",
         fmt::format("partial_rotary_factor {} of head_dim {} is {} elements, but RoPE rotates pairs",
                     m.partial_rotary_factor, m.head_dim, width),
         "write a factor that gives an even number",
         [dim = m.head_dim, width](const Sound& sound) {
           const auto below = static_cast<std::int64_t>(width / 2) * 2;
           std::vector<Edit> edits;
           for (const std::int64_t even : {below, below + 2})
             if (even >= 2 && even <= dim)
               add(sound, write("model.partial_rotary_factor", factor_of(even, dim)), edits);
           return edits;
         },
         {"model.partial_rotary_factor", "model.head_dim"});
  }

  void norm_of_heads() {
    if (!usable({"model.qk_norm", "model.qk_norm_over", "model.qk_norm_place"}) || !spec_.model.qk_norm) return;
    if (spec_.model.qk_norm_over != QkNormOver::width || spec_.model.qk_norm_place != QkNormPlace::after_rope) return;
    fail("E0360", "a norm after RoPE is of each head, but qk_norm_over is width",
         "write qk_norm_over: head, or qk_norm_place: before_rope",
         any_of({write("model.qk_norm_over", "head"), write("model.qk_norm_place", "before_rope")}),
         {"model.qk_norm_place", "model.qk_norm_over"});
  }

  /// A norm of what RoPE and the factor of q give removes the factor.
  void factor_of_q() {
    if (!usable({"model.qk_norm", "model.qk_norm_place", "model.rope_scaling.llama_4_scaling_beta"})) return;
    const Model& m = spec_.model;
    if (!m.qk_norm || m.qk_norm_place != QkNormPlace::after_rope || m.rope_scaling.llama_4_scaling_beta == 0) return;
    fail("E0362", "llama_4_scaling_beta scales q after RoPE, but qk_norm_place: after_rope normalises it then",
         "write qk_norm_place: before_rope, or llama_4_scaling_beta: 0",
         any_of({write("model.qk_norm_place", "before_rope"), write("model.rope_scaling.llama_4_scaling_beta", "0")}),
         {"model.rope_scaling.llama_4_scaling_beta", "model.qk_norm_place"});
  }

  void cuda_attention() {
    if (!usable({"target.kind"}) || spec_.target.kind != TargetKind::cuda) return;
    if (usable({"precision.compute", "target.attention"}) && spec_.compute != DType::bf16 &&
        spec_.target.attention == AttentionKind::cudnn)
      fail("E0318",
           spec_.compute == DType::f32 ? "cuDNN's attention does not support fp32"
                                       : "llmc uses cuDNN's attention in bf16 only, but compute is fp16",
           "write attention: auto, or compute: bf16",
           any_of({write("target.attention", "auto"), write("precision.compute", "bf16")}),
           {"target.attention", "precision.compute"});
    if (usable({"model.attn_logit_softcapping", "target.attention"}) && spec_.model.attn_logit_softcapping > 0 &&
        spec_.target.attention == AttentionKind::cudnn)
      fail("E0348", "cuDNN has no soft cap of attention's scores together with a causal mask",
           "write attention: auto, or attn_logit_softcapping: none",
           any_of({write("target.attention", "auto"), leave_out("model.attn_logit_softcapping")}),
           {"target.attention", "model.attn_logit_softcapping"});
  }

  /// Vectors of several tensors, each of which llmc's kernels access 16 bytes at a time.
  void cuda_vectors() {
    const Model& m = spec_.model;
    if (!usable({"target.kind", "model.head_dim", "model.num_attention_heads", "model.num_key_value_heads",
                 "precision.compute"}) ||
        spec_.target.kind != TargetKind::cuda || m.head_dim % 2)
      return;
    const std::int64_t q = m.num_attention_heads * m.head_dim, k = m.num_key_value_heads * m.head_dim;
    const std::int64_t unit = vector_of(spec_.compute);
    const auto propose = [dim = m.head_dim, unit](const char* key, const char* value) {
      return [=](const Sound& sound) {
        std::vector<Edit> edits;
        add(sound, write(key, value), edits);
        add_multiples(sound, "model.head_dim", dim, unit, edits);
        return edits;
      };
    };
    if (usable({"model.attention_bias"}) && m.attention_bias && (q % unit != 0 || k % unit != 0))
      fail("E0319",
           fmt::format("with attention_bias on cuda, q and k need multiples of {} columns, but have {} and {}", unit, q,
                       k),
           fmt::format("write attention_bias: false, or a head_dim that is a multiple of {}", unit),
           propose("model.attention_bias", "false"), {"model.attention_bias", "model.head_dim", "target.kind"});
    if (usable({"model.qk_norm", "model.qk_norm_over", "model.norm_weight"}) && m.qk_norm &&
        m.qk_norm_over == QkNormOver::width && m.norm_weight != NormWeight::none && q % unit != 0)
      fail("E0319",
           fmt::format("with qk_norm_over: width on cuda, q needs a multiple of {} columns, but has {}", unit, q),
           fmt::format("write qk_norm_over: head, or a head_dim that is a multiple of {}", unit),
           propose("model.qk_norm_over", "head"), {"model.qk_norm_over", "model.head_dim", "target.kind"});
  }

  void key_value_heads() {
    const Model& m = spec_.model;
    if (!usable({"model.num_attention_heads", "model.num_key_value_heads"}) ||
        m.num_attention_heads % m.num_key_value_heads == 0)
      return;
    fail("E0302",
         fmt::format("num_attention_heads {} is not divisible by num_key_value_heads {}", m.num_attention_heads,
                     m.num_key_value_heads),
         "write a divisor of num_attention_heads",
         [heads = m.num_attention_heads, kv = m.num_key_value_heads](const Sound& sound) {
           std::vector<Edit> edits;
           add_divisors(sound, "model.num_key_value_heads", heads, kv, edits);
           return edits;
         },
         {"model.num_key_value_heads", "model.num_attention_heads"});
  }

  void sliding_layers() {
    if (!usable({"model.sliding_window", "model.layer_types"}) || !spec_.model.sliding_window) return;
    const std::vector<std::string>& types = spec_.model.layer_types;
    const std::int64_t layers = spec_.model.num_hidden_layers;
    if (!of(types, kSlidingAttention)) {
      fail("E0326", "layer_types has only full_attention, so sliding_window has no effect",
           "write sliding_attention for some layers, or leave both keys out",
           any_of({write("model.layer_types", "[sliding_attention, full_attention]"), leave_out("model.layer_types")}),
           {"model.layer_types", "model.sliding_window"});
    } else if (usable({"model.num_hidden_layers"}) && static_cast<std::int64_t>(types.size()) > layers) {
      const auto kept = types.begin() + layers;
      fail("E0326", fmt::format("layer_types has {} types for {} layer{}", types.size(), layers, plural(layers)),
           fmt::format("write {} types at most: a shorter list repeats", layers),
           any_of({write("model.layer_types", "[" + either({types.begin(), kept}, ", ") + "]"),
                   write("model.num_hidden_layers", static_cast<std::int64_t>(types.size()))}),
           {"model.layer_types", "model.num_hidden_layers"});
    }
  }

  void rope() {
    const RopeScaling& r = spec_.model.rope_scaling;
    if (r.type == RopeType::yarn) yarn();
    if (r.type != RopeType::llama3 ||
        !usable({"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"}) ||
        r.low_freq_factor < r.high_freq_factor)
      return;
    Edit edit;
    edit.write = {{"model.rope_scaling.low_freq_factor", "1"}, {"model.rope_scaling.high_freq_factor", "4"}};
    edit.text = "write low_freq_factor: 1 and high_freq_factor: 4, as Llama 3 has them";
    fail("E0310",
         fmt::format("high_freq_factor {} is not above low_freq_factor {}", r.high_freq_factor, r.low_freq_factor),
         "write a larger high_freq_factor", any_of({edit}),
         {"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor"});
  }

  void yarn() {
    const RopeScaling& r = spec_.model.rope_scaling;
    if (!usable({"model.rope_scaling.beta_fast", "model.rope_scaling.beta_slow"}) || r.beta_fast > r.beta_slow) return;
    Edit edit;
    edit.write = {{"model.rope_scaling.beta_fast", "32"}, {"model.rope_scaling.beta_slow", "1"}};
    edit.text = "write beta_fast: 32 and beta_slow: 1, the usual ones";
    fail("E0310", fmt::format("beta_fast {} is not above beta_slow {}", r.beta_fast, r.beta_slow),
         "write a larger beta_fast", any_of({edit}), {"model.rope_scaling.beta_fast", "model.rope_scaling.beta_slow"});
  }

  /// Layers without RoPE exist, and some layers have it.
  void rope_layers() {
    const Model& m = spec_.model;
    if (!usable({"model.no_rope_layers", "model.num_hidden_layers"}) || m.no_rope_layers.empty()) return;
    const LayerSet& set = m.no_rope_layers;
    const std::int64_t layers = m.num_hidden_layers, last = set.every ? set.every - 1 : set.layers.back();
    if (last >= layers) {
      std::vector<Edit> edits;
      if (layers > 1) edits.push_back(write("model.no_rope_layers", fmt::format("[{}]", layers - 1)));
      edits.push_back(leave_out("model.no_rope_layers"));
      fail("E0332",
           fmt::format("no_rope_layers has layer {}, but the last of {} layer{} is {}", last, layers, plural(layers),
                       layers - 1),
           "name layers of the model, which count from 0", any_of(std::move(edits)),
           {"model.no_rope_layers", "model.num_hidden_layers"});
    } else if (set.every == 1 || std::ssize(set.layers) == layers) {
      fail("E0332", "no_rope_layers has all layers, so no layer knows the order of its tokens",
           "leave some layers with RoPE",
           any_of({write("model.no_rope_layers", "4"), write("model.no_rope_layers", "2"),
                   leave_out("model.no_rope_layers")}),
           {"model.no_rope_layers"});
    }
  }

  /// The factor is one of the product, to which a bias is added.
  void residual_multiplier() {
    const Model& m = spec_.model;
    if (!usable({"model.residual_multiplier", "model.attention_bias", "model.attention_out_bias", "model.mlp_bias"}) ||
        m.residual_multiplier == 1 || (!m.attention_out_bias && !m.mlp_bias))
      return;
    const char* key = m.attention_out_bias ? "model.attention_out_bias" : "model.mlp_bias";
    fail("E0333",
         fmt::format("residual_multiplier {} scales no bias, but {} adds one to the residual stream",
                     m.residual_multiplier, leaf_of(key)),
         fmt::format("write {}: false, or residual_multiplier: 1", leaf_of(key)),
         any_of({write(key, "false"), write("model.residual_multiplier", "1")}), {key, "model.residual_multiplier"});
  }

  /// Norms and biases are the model's vectors.
  void vectors() {
    const Model& m = spec_.model;
    if (!usable({"model.norm_weight", "model.attention_bias", "model.attention_out_bias", "model.mlp_bias"}) ||
        m.norm_weight != NormWeight::none || m.attention_bias || m.attention_out_bias || m.mlp_bias)
      return;
    for (const char* path :
         {"optimizer.rate_scale.vectors", "optimizer.weight_decay_of.vectors", "optimizer.betas_of.vectors"}) {
      const Key& key = *find_key(path);
      // A spec with all values has these too.
      if (given(path) && usable({path}) && (key.derive ? key.derive(spec_) : fallback_of(key)) != key.get(spec_))
        fail("E0309", fmt::format("{} has no effect on a model without weights of norms and without biases", path),
             "remove it, or write norm_weight: plain", any_of({leave_out(path), write("model.norm_weight", "plain")}),
             {path, "model.norm_weight"});
    }
  }

  void documents() {
    if (!usable({"data.documents.mask", "data.documents.separator"})) return;
    const Documents& d = spec_.data.documents;
    const std::int64_t vocabulary = spec_.model.vocab_size;
    if (usable({"model.vocab_size"}) && d.separator >= vocabulary)
      fail("E0345", fmt::format("documents end with token {}, but vocab_size is {}", d.separator, vocabulary),
           fmt::format("write a separator below {}", vocabulary),
           any_of({write("data.documents.separator", vocabulary - 1), write("model.vocab_size", d.separator + 1)}),
           {"data.documents.separator", "model.vocab_size"});
    if (usable({"data.documents.reset_positions"}) && d.reset_positions && !d.mask)
      fail("E0347", "positions that begin anew in each document, while tokens attend to the documents before",
           "write mask: true, or reset_positions: false",
           any_of({write("data.documents.mask", "true"), write("data.documents.reset_positions", "false")}),
           {"data.documents.reset_positions", "data.documents.mask"});
    if (usable({"target.kind", "target.attention"}) && d.mask && spec_.target.kind == TargetKind::cuda &&
        spec_.target.attention == AttentionKind::cudnn)
      fail("E0346", "cuDNN has no masks of documents that are deterministic and of constant shapes",
           "write attention: auto, or mask: false",
           any_of({write("target.attention", "auto"), write("data.documents.mask", "false")}),
           {"target.attention", "data.documents.mask"});
  }

  /// A norm of its result removes a factor of the product, and only then is down_proj's result kept.
  void norms_after() {
    const Model& m = spec_.model;
    if (!usable({"model.norm_place"})) return;
    if (usable({"model.residual_multiplier"}) && m.norms_after() && m.residual_multiplier != 1)
      fail("E0334",
           fmt::format("residual_multiplier {} has no effect on what is normalised after it", m.residual_multiplier),
           "write norm_place: pre, or residual_multiplier: 1",
           any_of({write("model.residual_multiplier", "1"), write("model.norm_place", "pre")}),
           {"model.residual_multiplier", "model.norm_place"});
    const Recompute& wish = spec_.memory.recompute;
    const auto has_down = [](const auto& range) { return of(range.ops, "down"); };
    if (!usable({"memory.recompute"}) || m.norms_after() ||
        (!has_down(wish) && std::ranges::none_of(wish.layers, has_down)))
      return;
    std::vector<std::string> others = wish.ops;
    std::erase(others, "down");
    std::vector<Edit> edits;
    if (!others.empty()) edits.push_back(write("memory.recompute", "[" + either(others, ", ") + "]"));
    edits.push_back(leave_out("memory.recompute"));
    fail("E0335", "the result of down_proj is not kept with norm_place: pre, so `down` names nothing",
         "leave `down` out of the list", any_of(std::move(edits)), {"memory.recompute", "model.norm_place"});
  }

  /// An MLP without a gate has neither gate_proj's result nor a product with it.
  void recomputed_mlp() {
    if (!usable({"memory.recompute", "model.mlp_gated"})) return;
    const auto* const own = spec_.model.mlp_gated ? kRecomputeGroups : kUngatedRecomputeGroups;
    const auto* const others = spec_.model.mlp_gated ? kUngatedRecomputeGroups : kRecomputeGroups;
    std::vector<std::string> wrong, right;
    const auto rename = [&](std::vector<std::string>& words) {
      for (std::size_t i = 0; i < std::size(kRecomputeGroups); ++i) {
        if (std::string_view(own[i]) == others[i] || !of(words, others[i])) continue;
        if (!of(wrong, others[i])) wrong.emplace_back(others[i]), right.emplace_back(own[i]);
        if (of(words, own[i]))
          std::erase(words, others[i]);
        else
          std::ranges::replace(words, std::string(others[i]), std::string(own[i]));
      }
    };
    Recompute renamed = spec_.memory.recompute;
    rename(renamed.ops);
    for (RecomputeRange& range : renamed.layers) rename(range.ops);
    if (wrong.empty()) return;
    fail("E0336",
         fmt::format("recompute names {}, but with mlp_gated: {} {}", either(wrong, " and "), spec_.model.mlp_gated,
                     spec_.model.mlp_gated ? "the MLP has a gate" : "the MLP has no gate"),
         fmt::format("write {}", either(right, " and ")), any_of({write("memory.recompute", recompute_text(renamed))}),
         {"memory.recompute", "model.mlp_gated"});
  }

  void architectures() {
    if (!usable({"target.kind", "target.arch"})) return;
    const bool cpu = spec_.target.kind == TargetKind::cpu;
    const std::vector<std::string>& known = cpu ? cpu_architectures() : cuda_architectures();
    const std::vector<std::string>& others = cpu ? cuda_architectures() : cpu_architectures();
    const std::vector<std::string>& arch = spec_.target.arch;
    for (std::size_t i = 0; i < arch.size(); ++i) {
      if (of(known, arch[i])) continue;
      std::vector<Edit> edits;
      const auto near = nearest(arch[i], known);
      // "sm_90a", "9.0", "sm_90" and "compute_90a" all mean 90a.
      std::string digits;
      std::copy_if(arch[i].begin(), arch[i].end(), std::back_inserter(digits),
                   [](char c) { return (c >= '0' && c <= '9') || c == 'a'; });
      while (!cpu && !digits.empty() && !of(known, digits)) digits.erase(0, 1);
      const std::string device = cpu ? "" : our_word("target.arch", arch[i]);
      const std::string meant = !device.empty()           ? device
                                : !cpu && !digits.empty() ? arch_of_capability(digits)
                                                          : near.value_or("");
      if (!meant.empty()) {
        edits.push_back(write("target.arch", with(arch, i, meant)));
        edits.back().meant = true;
        edits.back().text = fmt::format("did you mean {}?", meant);
      }
      // target.attention has an effect on cuda only.
      if (of(others, arch[i]) && (cpu || !given("target.attention")))
        edits = {write("target.kind", cpu ? "cuda" : "cpu")};
      if (meant.empty()) edits.push_back(write("target.arch", cpu ? "native" : with(arch, i, "90a")));
      fail("E0311", fmt::format("target {} has no arch {}", cpu ? "cpu" : "cuda", in_quotes(arch[i])),
           fmt::format("write {}", either(known)), any_of(std::move(edits)), {"target.arch", "target.kind"});
      return;
    }
    if (cpu && arch.size() > 1) {
      fail("E0311", "a cpu trainer is compiled for one arch", "write one", any_of({write("target.arch", arch[0])}),
           {"target.arch"});
      return;
    }
    for (std::size_t i = 0; i < arch.size(); ++i)
      if (of({arch.begin(), arch.begin() + static_cast<std::ptrdiff_t>(i)}, arch[i])) {
        fail("E0311", fmt::format("target.arch names {} twice", arch[i]), "remove one of them",
             any_of({write("target.arch", with(arch, i, ""))}), {"target.arch"});
        return;
      }
  }

 private:
  /// Text of a factor by which `dim` becomes `even` when it is rounded down.
  static std::string factor_of(std::int64_t even, std::int64_t dim) {
    double factor = static_cast<double>(even) / static_cast<double>(dim);
    if (static_cast<double>(dim) * factor < static_cast<double>(even)) factor = std::nextafter(factor, 2.0);
    return fmt::format("{}", factor);
  }

  static bool of(const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  }

  /// The list in brackets with the entry at `at` replaced by `word`, or removed.
  static std::string with(std::vector<std::string> list, std::size_t at, const std::string& word) {
    list[at] = word;
    if (word.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::string& item : list)
      if (!std::all_of(item.begin(), item.end(),
                       [](char c) { return c == '-' || std::isalnum(static_cast<unsigned char>(c)); }))
        item = "\"?\"";  // invalid too, and must not be repeated
    return "[" + either(list, ", ") + "]";
  }
};

}  // namespace

void check_model_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics) {
  ModelRelations relations(bound, diagnostics);
  relations.heads();
  relations.rotary_width();
  relations.norm_of_heads();
  relations.factor_of_q();
  relations.cuda_attention();
  relations.cuda_vectors();
  relations.key_value_heads();
  relations.sliding_layers();
  relations.rope();
  relations.rope_layers();
  relations.residual_multiplier();
  relations.norms_after();
  relations.recomputed_mlp();
  relations.vectors();
  relations.documents();
  relations.architectures();
}

}  // namespace llmc::spec
