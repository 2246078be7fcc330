#include "compiler/plan/step_time.h"

#include <algorithm>
#include <array>

#include "compiler/graph/orthogonal.h"
#include "compiler/plan/price.h"
#include "compiler/plan/schedule_walk.h"

namespace llmc::plan {

namespace {

/// Whether only the first micro-batch of a step runs the launch: it zeroes buffers that the others add to, or rounds
/// weights for them.
bool is_once(const std::vector<Runs>& runs, const Launch& launch) {
  return launch.per_step && !runs[launch.region_index].per_step;
}

/// Predicted time of one run of each region: of the launches that only the first micro-batch runs, or of the others.
std::vector<double> seconds_of(const Plan& plan, bool once) {
  const std::vector<Runs> runs = runs_of(plan.schedule, plan.graph.regions.size());
  std::vector<double> seconds(plan.graph.regions.size(), 0);
  for (const Launch& launch : plan.launches)
    if (launch.times && is_once(runs, launch) == once) seconds[launch.region_index] += price(plan, launch).seconds;
  return seconds;
}

/// Simulates two clocks: of the device, and of the collectives on their stream.
class Clocks {
 public:
  explicit Clocks(const Plan& plan)
      : plan_(plan),
        seconds_(region_seconds(plan)),
        seconds_once_(seconds_of(plan, true)),
        done_(plan.schedule.events.size()),
        owners_(matrix_owners(plan)),
        streams_(plan.spec.target.kind == spec::TargetKind::cuda) {}

  /// `spans`: if given, receives the intervals of runs and waits.
  StepTime run(std::vector<StreamSpan>* spans = nullptr) {
    const std::int64_t passes = plan_.rank_micro_batches();
    spans_ = spans;
    pass(PassName::micro_batch, {true, passes == 1});
    if (passes > 2) {  // those between the first and the last are equal: counts one of them several times
      const Clocks before = *this;
      ++pass_;
      pass(PassName::micro_batch, {false, false});
      const auto more = static_cast<double>(passes - 3);
      now_ += more * (now_ - before.now_);
      computed_ += more * (computed_ - before.computed_);
      sent_ = std::max(sent_, before.sent_ + (more + 1) * (sent_ - before.sent_));
    }
    if (passes > 1) {
      ++pass_;
      pass(PassName::micro_batch, {false, true});
    }
    pass(PassName::optimizer_step, {});
    return {now_, computed_, now_ - computed_};
  }

 private:
  void pass(PassName name, Moment moment) {
    for (const Stop& stop : stops(plan_.schedule, name, moment)) {
      switch (stop.item->does) {
        case ScheduleItem::Does::run:
          if (is_others(stop)) break;
          compute(stop.region, stop.layer,
                  static_cast<double>(stop.times()) *
                      (seconds_[stop.region] + (moment.first ? seconds_once_[stop.region] : 0)));
          break;
        case ScheduleItem::Does::send: send(stop); break;
        case ScheduleItem::Does::wait: await(done(stop.item->event, stop)); break;
        case ScheduleItem::Does::join: await(sent_); break;
        default: break;
      }
    }
  }

  /// Whether the rank with most matrices leaves the item to others: the step takes as long as its.
  bool is_others(const Stop& stop) const {
    return stop.item->matrix != graph::kNoMatrix &&
           owners_->of(static_cast<std::size_t>(stop.layer), static_cast<std::size_t>(stop.item->matrix)) !=
               owners_->busiest();
  }

  void note(StreamSpan::Does does, std::size_t region, std::int64_t layer, double begin, double end) {
    if (spans_ && end > begin) spans_->push_back({does, region, layer, pass_, begin, end});
  }

  void compute(std::size_t region, std::int64_t layer, double seconds) {
    note(StreamSpan::Does::compute, region, layer, now_, now_ + seconds);
    now_ += seconds;
    computed_ += seconds;
  }

  /// Collectives start when their inputs are ready and earlier sends are done.
  void send(const Stop& stop) {
    double& clock = streams_ ? sent_ : now_;
    const double begin = std::max(clock, now_);
    clock = begin + seconds_[stop.region];
    note(StreamSpan::Does::send, stop.region, 0, begin, clock);
    if (const int event = plan_.schedule.event_after(stop.region); event != kNoEvent) done(event, stop) = clock;
  }

  void await(double done) {
    note(StreamSpan::Does::wait, 0, 0, now_, done);
    now_ = std::max(now_, done);
  }

  double& done(int event, const Stop& stop) {
    const bool slots = plan_.schedule.events[static_cast<std::size_t>(event)].slots > 1;
    return done_[static_cast<std::size_t>(event)][static_cast<std::size_t>(slots ? stop.slot() : 0)];
  }

  const Plan& plan_;
  const std::vector<double> seconds_, seconds_once_;   // of a region's run
  std::vector<std::array<double, kLayerSlots>> done_;  // when the event was last marked
  std::optional<MatrixOwners> owners_;                 // if the optimizer orthogonalises
  bool streams_;
  double now_ = 0, sent_ = 0, computed_ = 0;
  std::vector<StreamSpan>* spans_ = nullptr;
  int pass_ = 0;
};

}  // namespace

std::optional<MatrixOwners> matrix_owners(const Plan& plan) {
  const std::vector<double> flops = graph::orthogonalising_flops(
      graph::orthogonal_matrices(plan.graph, plan.spec.optimizer.kind), plan.spec.optimizer.muon_iterations);
  if (flops.empty()) return {};
  return MatrixOwners(static_cast<int>(plan.spec.parallel.world_size), static_cast<std::size_t>(plan.graph.layers()),
                      flops);
}

std::vector<std::int64_t> matrix_runs(const Plan& plan, int rank) {
  std::vector<std::int64_t> runs(plan.graph.regions.size());
  const std::optional<MatrixOwners> owners = matrix_owners(plan);
  if (!owners) return runs;
  for (const Stop& stop : stops(plan.schedule, PassName::optimizer_step))
    if (stop.item->does == ScheduleItem::Does::run && stop.item->matrix != graph::kNoMatrix &&
        owners->of(static_cast<std::size_t>(stop.layer), static_cast<std::size_t>(stop.item->matrix)) == rank)
      ++runs[stop.region];
  return runs;
}

std::vector<double> region_seconds(const Plan& plan) { return seconds_of(plan, false); }

StepTime step_time(const Plan& plan) { return Clocks(plan).run(); }

std::vector<StreamSpan> step_spans(const Plan& plan) {
  std::vector<StreamSpan> spans;
  Clocks(plan).run(&spans);
  return spans;
}

}  // namespace llmc::plan
