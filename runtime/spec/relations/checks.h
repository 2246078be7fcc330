// Shared parts of all checks of relations: keys that were given, keys that may be used, and reporting.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "spec/advice/proposals.h"
#include "spec/binder.h"
#include "spec/diagnostics.h"

namespace llmc::spec {

class RelationChecks {
 protected:
  RelationChecks(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics)
      : bound_(bound), spec_(bound.spec), diagnostics_(diagnostics) {}

  bool given(const std::string& path) const { return bound_.given.count(path) > 0; }
  bool usable(std::initializer_list<const char*> paths) const {
    return std::all_of(paths.begin(), paths.end(), [&](const char* path) { return bound_.usable(path); });
  }

  void fail(const char* code, std::string message, std::string rule, Propose propose,
            std::initializer_list<const char*> paths) {
    Diagnostic diagnostic{code, std::move(message), std::move(rule), {}};
    diagnostic.key = *paths.begin();
    diagnostic.propose = std::move(propose);
    for (const char* path : paths) {
      const auto found = bound_.given.find(path);
      if (found != bound_.given.end() && found->second.source)  // none for relations_hold()
        diagnostic.places.push_back(place_of(found->second, fmt::format("{} is set here", leaf_of(path))));
    }
    if (!diagnostic.places.empty()) diagnostic.places[0].note.clear();
    diagnostics_.push_back(std::move(diagnostic));
  }

  const BoundSpec& bound_;
  const Spec& spec_;
  std::vector<Diagnostic>& diagnostics_;
};

/// Checks the relations of the model and its target, among usable keys.
void check_model_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics);

/// Checks the relations of the precision with the model and the target, among usable keys.
void check_precision_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
