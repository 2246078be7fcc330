#include "trainer/startup/resume_guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/order/sources.h"
#include "error.h"
#include "run/model_change.h"
#include "spec/schema/schema.h"
#include "spec/training_sources.h"
#include "spec/values.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTrain = "data.train";

/// Member of a mixture's source that a word names: "data.train.web.weight".
std::optional<spec::MemberPath> source_member(const std::string& word) {
  const auto member = spec::spec_schema().member_path(word);
  return member && member->member && member->row->group() == kTrain ? member : std::nullopt;
}

/// The changes that the command line of one start allows.
class ResumeGuard {
 public:
  ResumeGuard(const std::vector<std::string>& allowed, const fs::path& checkpoint)
      : allowed_(allowed), checkpoint_(checkpoint) {}

  [[noreturn]] void refuse(const std::string& what, const std::string& theirs, const std::string& mine,
                           const std::string& remedy) const {
    throw Failure(Exit::checkpoint, fmt::format("checkpoint '{}' was made with {} {}, but this run has {}. {}",
                                                checkpoint_.string(), what, theirs, mine, remedy));
  }

  bool allows(const std::string& key) const {
    return std::ranges::any_of(allowed_, [&](const std::string& word) {
      return spec::spec_schema().canonical(word) == key || (word == kTrain && key.starts_with("data.train."));
    });
  }

  void check(const std::string& key, const std::string& theirs, const std::string& mine, const std::string& remedy,
             const std::string& difference = "") const {
    if (theirs != mine && !allows(key))
      refuse(key, theirs, mine + difference, fmt::format("{}, or resume with --allow {}", remedy, key));
  }

 private:
  const std::vector<std::string>& allowed_;
  const fs::path& checkpoint_;
};

/// `difference`: files that differ, if known.
void check_sources(const ResumeGuard& guard, const std::vector<SourceChange>& changes, const std::string& difference) {
  for (const SourceChange& change : changes) {
    const std::string key = spec::training_key(change.name), weight = key + ".weight";
    if (change.what == SourceChange::weight)
      guard.check(weight, change.before, change.after, "Use the same weight");
    else if (change.what == SourceChange::data)
      guard.check(key, change.before, change.after, "Restore the token shards", difference);
    else if (!guard.allows(weight))  // added or removed, to which a weight belongs
      guard.check(key, change.before, change.after,
                  change.what == SourceChange::added ? "Remove the source" : "Restore the source");
  }
}

/// Keys that say which tokens a token sees and which are targets.
constexpr const char* kDocumentKeys[] = {"data.documents.mask", "data.documents.reset_positions",
                                         "data.documents.mask_first"};
constexpr const char* kSeparator = "data.documents.separator";

/// most_epochs of a source with this name; "none" if there is none.
std::string most_epochs(const spec::Spec& spec, const std::string& name) {
  const auto found = std::ranges::find(spec.data.mixture, name, &spec::MixedSource::name);
  return found == spec.data.mixture.end() || found->most_epochs == 0 ? "none" : fmt::format("{}", found->most_epochs);
}

}  // namespace

const std::vector<std::string>& guarded_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all = {"data.train.path", "data.tokenizer", "data.seed", "seed",
                                    "optimizer.kind",  "schedule.steps"};
    all.insert(all.end(), std::begin(kDocumentKeys), std::end(kDocumentKeys));
    all.emplace_back(kSeparator);
    all.insert(all.end(), spec::soft_model_keys().begin(), spec::soft_model_keys().end());
    return all;
  }();
  return keys;
}

bool is_guarded(const std::string& word) {
  const auto member = source_member(word);
  return word == kTrain || std::ranges::find(guarded_keys(), word) != guarded_keys().end() ||
         (member && member->member->leaf() != "format");
}

void check_resume(const TrainState& saved, const spec::Spec& before, const TrainState& ours, const spec::Spec& after,
                  const std::vector<std::string>& allowed, const fs::path& checkpoint, const std::string& shards) {
  const ResumeGuard guard(allowed, checkpoint);
  if (saved.model_fingerprint != ours.model_fingerprint) {
    const std::string refusal =
        model_refusal(before, after, allowed, "'" + saved.model_fingerprint + "' -> '" + ours.model_fingerprint + "'",
                      "Choose another --run");
    if (!refusal.empty())
      throw Failure(Exit::checkpoint,
                    fmt::format("checkpoint '{}' is of another model: {}", checkpoint.string(), refusal));
  }
  // For files, both values are checksums of the content.
  check_sources(guard, source_changes({saved.position, saved.data_fingerprint}, {ours.position, ours.data_fingerprint}),
                shards.empty() ? "" : " (" + shards + ")");
  for (const spec::MixedSource& source : before.data.mixture)
    if (std::ranges::find(after.data.mixture, source.name, &spec::MixedSource::name) != after.data.mixture.end())
      guard.check(spec::training_key(source.name) + ".most_epochs", most_epochs(before, source.name),
                  most_epochs(after, source.name), "Use the same value");
  if (!ours.tokenizer.empty() && !saved.tokenizer.empty())
    guard.check("data.tokenizer", saved.tokenizer, ours.tokenizer, "Restore the tokenizer");
  guard.check("data.seed", std::to_string(saved.data_seed), std::to_string(ours.data_seed), "Use the same value");
  guard.check("seed", std::to_string(saved.seed), std::to_string(ours.seed), "Use the same value");
  for (const char* key : kDocumentKeys)
    guard.check(key, spec::text_of(key, before), spec::text_of(key, after), "Use the same value");
  if (saved.separator >= 0 && ours.separator >= 0)
    guard.check(kSeparator, std::to_string(saved.separator), std::to_string(ours.separator), "Use the same token");
  guard.check("optimizer.kind", spec::text_of("optimizer.kind", before), spec::text_of("optimizer.kind", after),
              "Use the same value");
  if (after.schedule.steps < before.schedule.steps)
    guard.check("schedule.steps", std::to_string(before.schedule.steps), std::to_string(after.schedule.steps),
                "A shorter schedule changes the learning rates: to stop earlier use --steps");
}

TrainState resumed(TrainState saved, const TrainState& ours) {
  saved.position = continue_in({ours.position, ours.data_fingerprint}, {saved.position, saved.data_fingerprint},
                               saved.data_seed == ours.data_seed);
  saved.seed = ours.seed;
  saved.data_seed = ours.data_seed;
  saved.model_fingerprint = ours.model_fingerprint;
  saved.data_fingerprint = ours.data_fingerprint;
  if (!ours.tokenizer.empty()) saved.tokenizer = ours.tokenizer;
  if (ours.separator >= 0) saved.separator = ours.separator;
  return saved;
}

}  // namespace llmc
