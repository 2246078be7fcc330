#include "trainer/commands/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "comm/collectives.h"
#include "comm/rendezvous.h"
#include "device/device.h"
#include "device/replay.h"
#include "files/durable_file.h"
#include "host/clock.h"
#include "math/tiles/fits.h"
#include "run/history.h"
#include "spec/values.h"
#include "step/session.h"
#include "text/message.h"
#include "trainer/commands/product_rate.h"
#include "trainer/startup/values.h"

namespace llmc {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{256} << 20;  // for rotating operands: more than caches hold
constexpr std::size_t kMostSlots = 16;
constexpr double kSampleSeconds = 2e-3;  // duration of launches timed together: far above the clock's resolution
constexpr double kMostLaunches = 200;
constexpr std::size_t kLeastCopy = std::size_t{64} << 10;

const std::vector<std::int64_t>& sizes_of(const CalibrateCommand& command, const Device& device) {
  static const std::vector<std::int64_t> cpu = {32, 128, 512, 2048}, gpu = {512, 2048, 4096};
  return !command.sizes.empty() ? command.sizes : device.runs_ahead() ? gpu : cpu;
}

constexpr GemmForm kForms[] = {
    {"forward", false, true}, {"data_gradient", false, false}, {"weight_gradient", true, false}};

constexpr Writer kOut = {Exit::usage, "--out"};

/// Something to be timed. `run` puts the given number of launches on the stream.
struct Item {
  std::string name;
  std::function<void(int)> run;
  std::unique_ptr<Replay> replay;
  int launches = 1;             // per sample
  std::vector<double> seconds;  // per launch, one for each sample

  double median() {
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }
  /// Interquartile range of the samples, relative to the median.
  double spread() {
    const double middle = median();
    return (seconds[seconds.size() * 3 / 4] - seconds[seconds.size() / 4]) / middle;
  }
};

class Calibration {
 public:
  Calibration(const CalibrateCommand& command, const Program& program)
      : command_(command),
        info_(program.info),
        device_(command.device, command.threads),
        rendezvous_({}, {}),
        ranks_(device_, {}, rendezvous_),
        session_(device_, ranks_, program),
        compute_(built_values(info_, "").spec.compute),
        fp8_(built_values(info_, "").spec.fp8) {}

  void run() {
    if (!command_.out.empty()) check_can_write(command_.out, kOut);
    session_.initialise(1);
    session_.run_piece(StepPiece::pass, 0);  // so that layers have activations to work on
    if (!command_.attention_only) {
      pool_ = device_.allocate(kPoolBytes + info_.math_workspace_bytes());
      fill_random(device_, pool_, kPoolBytes, compute_);
      library_.emplace(device_, pool_ + kPoolBytes, info_.math_workspace_bytes());
      products();
      fp8_products();
      copies();
    }
    attention();
    if (!command_.attention_only) kernels();
    measure();
    print();
    if (!command_.out.empty()) write_file_atomically(command_.out, figures().dump(1) + "\n", kOut);
  }

 private:
  std::size_t add(std::string name, std::function<void(int)> work) {
    items_.push_back({std::move(name), std::move(work), std::make_unique<Replay>(device_), 1, {}});
    return items_.size() - 1;
  }

  // Times a GEMM the way trainers of this target run those of its form.
  void product(const GemmShape& shape) {
    const auto size = [](const GemmMatrix& matrix) {
      return (static_cast<std::size_t>(matrix.extent()) + 255) / 256 * 256;
    };
    const std::size_t a = size(shape.a()), b = size(shape.b()), d = size(shape.d());
    // In a step the previous launch has just written A, so caches hold as much of it as they can.
    const std::size_t slots = kPoolBytes > a ? std::min(kMostSlots, (kPoolBytes - a) / (b + d)) : 0;
    if (slots == 0)
      throw Failure(
          Exit::usage,
          fmt::format("--sizes {}: a product of these sizes does not fit in its 256 MiB. Write a smaller --sizes",
                      std::max({shape.m, shape.n, shape.k})));
    const auto gemm = std::make_shared<Gemm>(*library_, shape);
    const bool scaled = shape.scaling != Scaling::none;
    std::byte* const pool = scaled ? codes_ : pool_;
    const float* const scales = scaled ? reinterpret_cast<const float*>(scales_) : nullptr;
    add("product", [this, gemm, slots, pool, scales, a, b, whole = b + d, next = std::size_t{0}](int launches) mutable {
      for (int i = 0; i < launches; ++i, next = (next + 1) % slots) {
        std::byte* const at = pool + a + next * whole;
        (*gemm)(device_.stream(), {pool, at, nullptr, nullptr, at + b, false, scales, scales});
      }
    });
  }

  /// bf16x3 is planned with the rates of bf16. GEMMs in fp32 are measured in fp32.
  void products() {
    const std::vector<std::int64_t>& sizes = sizes_of(command_, device_);
    for (const auto& form : kForms) {
      first_of_form_.push_back(items_.size());
      const bool tiles = std::ranges::any_of(info_.products, [&](const GemmShape& p) {
        return p.tiles && !p.bf16x3() && p.transpose_a == form.transpose_a && p.transpose_b == form.transpose_b;
      });
      for (const std::int64_t m : sizes)
        for (const std::int64_t n : sizes)
          for (const std::int64_t k : sizes) product(timed_shape(form, m, n, k, compute_, tiles));
    }
  }

  /// Those of a trainer that has products of codes, with its scales: three forms at the largest size that they take,
  /// all with both operands stored along the sum.
  void fp8_products() {
    const auto own =
        std::ranges::find_if(info_.products, [](const GemmShape& p) { return p.scaling != Scaling::none; });
    for (const std::int64_t size : sizes_of(command_, device_))
      if (size % spec::kFp8Multiple == 0) fp8_size_ = std::max(fp8_size_, size);
    const std::int64_t size = fp8_size_;
    if (own == info_.products.end() || size == 0) return;
    codes_ = device_.allocate(kPoolBytes);
    fill_random(device_, codes_, kPoolBytes, DType::e4m3);
    scales_ = device_.allocate(static_cast<std::size_t>(size) * sizeof(float));
    fill_random(device_, scales_, static_cast<std::size_t>(size) * sizeof(float), DType::f32);
    first_fp8_ = items_.size();
    for (const auto& form : kForms)
      product({.m = size,
               .n = size,
               .k = size,
               .transpose_b = true,
               .pitch_a = size,
               .pitch_b = size,
               .pitch_d = size,
               .operand = DType::e4m3,
               .e5m2_a = own->scaling == Scaling::tensors && &form != kForms,
               .result = form.transpose_a ? DType::f32 : DType::bf16,
               .scaling = own->scaling,
               .accumulates = form.transpose_a,
               .fast_accumulation = fp8_.accumulates_fast(&form != kForms)});
  }

  /// FLOP/s of the three forms together.
  double fp8_rate() {
    double seconds = 0;
    for (std::size_t form = 0; form < std::size(kForms); ++form) seconds += items_[*first_fp8_ + form].median();
    return static_cast<double>(std::size(kForms)) * flops(fp8_size_, fp8_size_, fp8_size_) / seconds;
  }

  void copies() {
    first_copy_ = items_.size();
    for (std::size_t bytes = kLeastCopy; bytes <= kPoolBytes; bytes *= 2) {
      copied_.push_back(bytes);
      add("copy", [this, bytes](int launches) {
        for (int i = 0; i < launches; ++i) device_.copy(pool_ + bytes / 2, pool_, bytes / 2);
      });
    }
    launch_ = add("launch", [this](int launches) {
      for (int i = 0; i < launches; ++i) device_.zero(pool_, 64);
    });
  }

  /// Cycles through the layers, so that caches hold only what a step would leave there.
  std::size_t piece(StepPiece piece) {
    return add("piece", [this, piece, layer = std::int64_t{0}](int launches) mutable {
      for (int i = 0; i < launches; ++i, layer = (layer + 1) % info_.layers)
        session_.run_piece(piece, static_cast<std::size_t>(layer));
    });
  }

  void attention() {
    for (const StepPiece pass : {StepPiece::attention_forward, StepPiece::attention_backward})
      pieces_.push_back({pass, piece(pass)});
  }

  void kernels() {
    for (const StepPiece kind : {StepPiece::kernels, StepPiece::optimizer})
      if (work(kind).bytes > 0) pieces_.push_back({kind, piece(kind)});
  }

  const PieceWork& work(StepPiece piece) const { return info_.pieces[static_cast<std::size_t>(piece)]; }

  double timed(const std::function<void()>& work, int launches) {
    const double begin = process_seconds();
    work();
    device_.synchronize();
    return (process_seconds() - begin) / launches;
  }

  void measure() {
    to_stderr("calibrate: {} measurements, repeated for about {:.0f} s\n", items_.size(), command_.seconds);
    const double begin = process_seconds();
    for (Item& item : items_) {
      item.run(1);  // the first run loads code
      const double once = timed([&] { item.run(1); }, 1);
      item.launches = static_cast<int>(std::clamp(std::ceil(kSampleSeconds / once), 1.0, kMostLaunches));
      const std::function<void()> sample = [&item] { item.run(item.launches); };
      if (device_.runs_ahead())  // runs, then records
        for (int i = 0; i < 2; ++i) timed([&] { item.replay->run(sample); }, 1);
    }
    do {
      for (Item& item : items_)
        item.seconds.push_back(
            timed([&item] { item.replay->run([&item] { item.run(item.launches); }); }, item.launches));
      ++rounds_;
    } while (process_seconds() - begin < command_.seconds);
  }

  static const char* name_of_piece(StepPiece piece) {
    switch (piece) {
      case StepPiece::attention_forward: return "attention_forward";
      case StepPiece::attention_backward: return "attention_backward";
      case StepPiece::kernels: return "kernels";
      case StepPiece::optimizer: return "optimizer";
      case StepPiece::pass: break;
    }
    return "";
  }

  static double flops(std::int64_t m, std::int64_t n, std::int64_t k) {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  /// Upper quartile of the items' spreads.
  double spread() {
    std::vector<double> all;
    for (Item& item : items_) all.push_back(item.spread());
    std::ranges::sort(all);
    return all[all.size() * 3 / 4];
  }

  void print() {
    fmt::print("{}, {}, head_dim {}, {} rounds, medians; half of the samples within {:.0f} % of them\n",
               device_.description(), name_of(compute_), info_.head_dim, rounds_, 100 * spread());
    if (!command_.attention_only) {
      const std::vector<std::int64_t>& sizes = sizes_of(command_, device_);
      fmt::print("{:<28}", "m = n = k, TFLOP/s");
      for (const std::int64_t size : sizes) fmt::print(" {:>9}", size);
      for (std::size_t form = 0; form < std::size(kForms); ++form) {
        fmt::print("\n  {:<26}", kForms[form].name);
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          const std::size_t at = (i * sizes.size() + i) * sizes.size() + i;
          const double rate = flops(sizes[i], sizes[i], sizes[i]) / items_[first_of_form_[form] + at].median();
          fmt::print(" {:>9.4f}", 1e-12 * rate);
        }
      }
      if (first_fp8_) fmt::print("\n  {:<26} {:>9.4f} of {}", "all three in fp8", 1e-12 * fp8_rate(), fp8_size_);
      fmt::print("\n{:<28}", "copies, GB/s");
      for (const std::size_t i : {std::size_t{0}, copied_.size() / 2, copied_.size() - 1})
        fmt::print(" {:.1f} of {} KiB", 1e-9 * static_cast<double>(copied_[i]) / items_[first_copy_ + i].median(),
                   copied_[i] >> 10);
      fmt::print("\n{:<28} {:.2f} us\n", "launch", 1e6 * items_[launch_].median());
    }
    for (const auto& [piece, at] : pieces_) {
      const double seconds = items_[at].median();
      if (piece == StepPiece::attention_forward || piece == StepPiece::attention_backward)
        fmt::print("{:<28} {:.4f} ms, {:.4f} TFLOP/s of half of the square\n", name_of_piece(piece), 1e3 * seconds,
                   1e-12 * work(piece).flops / seconds);
      else
        fmt::print("{:<28} {:.4f} ms, {:.1f} GB/s\n", name_of_piece(piece), 1e3 * seconds,
                   1e-9 * work(piece).bytes / seconds);
    }
  }

  nlohmann::json figures() {
    nlohmann::json all = {{"format", kCalibrationFormat},
                          {"kind", device_.runs_ahead() ? "cuda" : "cpu"},
                          {"device", device_.description()},
                          {"date", utc_now().substr(0, 10)},
                          {"threads", device_.threads()},
                          {"precision", name_of(compute_)},
                          {"head_dim", info_.head_dim},
                          {"sequence", info_.sequence_length},
                          {"rounds", rounds_},
                          {"spread", spread()}};
    if (!command_.attention_only) {
      const std::vector<std::int64_t>& sizes = sizes_of(command_, device_);
      all["products"]["sizes"] = sizes;
      for (std::size_t form = 0; form < std::size(kForms); ++form) {
        std::vector<double> rates;
        for (const std::int64_t m : sizes)
          for (const std::int64_t n : sizes)
            for (const std::int64_t k : sizes)
              rates.push_back(flops(m, n, k) / items_[first_of_form_[form] + rates.size()].median());
        all["products"][kForms[form].name] = rates;
      }
      if (first_fp8_) all["product_fp8"] = {{"size", fp8_size_}, {"rate", fp8_rate()}};
      for (std::size_t i = 0; i < copied_.size(); ++i)
        all["copies"].push_back(
            {{"bytes", copied_[i]}, {"rate", static_cast<double>(copied_[i]) / items_[first_copy_ + i].median()}});
      all["launch"] = items_[launch_].median();
    }
    for (const auto& [piece, at] : pieces_)
      all[name_of_piece(piece)] = {{"seconds", items_[at].median()},
                                   {"flops", work(piece).flops},
                                   {"bytes", work(piece).bytes},
                                   {"launches", work(piece).launches}};
    return all;
  }

  const CalibrateCommand& command_;
  const ProgramInfo& info_;
  Device device_;
  Rendezvous rendezvous_;
  Communicator ranks_;
  Session session_;
  const DType compute_;
  const spec::Fp8 fp8_;
  std::byte* pool_ = nullptr;
  std::optional<MathLibrary> library_;
  std::vector<Item> items_;
  std::vector<std::size_t> first_of_form_, copied_;
  std::optional<std::size_t> first_fp8_;
  std::int64_t fp8_size_ = 0;
  std::byte *codes_ = nullptr, *scales_ = nullptr;
  std::size_t first_copy_ = 0, launch_ = 0;
  std::vector<std::pair<StepPiece, std::size_t>> pieces_;
  int rounds_ = 0;
};

}  // namespace

GemmShape timed_shape(const GemmForm& form, std::int64_t m, std::int64_t n, std::int64_t k, DType compute, bool tiles) {
  GemmShape shape{.m = m,
                  .n = n,
                  .k = k,
                  .transpose_a = form.transpose_a,
                  .transpose_b = form.transpose_b,
                  .pitch_a = form.transpose_a ? m : k,
                  .pitch_b = form.transpose_b ? k : n,
                  .pitch_d = n,
                  .operand = compute,
                  .result = form.transpose_a ? DType::f32 : compute,
                  .accumulates = form.transpose_a};
  shape.tiles = tiles && fits_tiles(shape);
  return shape;
}

void calibrate(const CalibrateCommand& command, const Program& program) { Calibration(command, program).run(); }

}  // namespace llmc
