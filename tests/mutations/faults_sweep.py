"""Faults of sweeps, of scaled specs and of phases."""

from faults import fault

FAULTS = [
    fault("a_sweep_starts_finished_runs", "is_final", "state == State::finished ||", "false ||", "run_sweep"),
    fault("a_best_value_inside_is_at_the_edge", "Ranker::look_around", "at + 1 == order.size()",
          "at + 1 < order.size()", "run_sweep"),
    fault("neighbours_by_the_order_of_typing", "ascending", "is_numeric(axis)", "false && is_numeric(axis)",
          "test_sweep Grid.*"),
    fault("runs_are_pruned_at_their_last_step", "PruneRule::shares", "share < 100", "share <= 100",
          "test_sweep Pruning.*"),
    fault("runs_are_held_against_diverged_ones", "behind in compiler/tools/sweep/pruning.cpp", "*other < best",
          "!(*other >= best)", "test_sweep Pruning.*"),
    fault("commas_in_lists_split_values", "values_in", "depth == 0 && !quote", "!quote", "test_sweep Grid.*"),
    fault("mup_keeps_the_rate_of_matrices", "Scaler::matrices_rate", "1 / m_", "1", "run_scale",
          "reference_coordinates"),
    fault("mup_scales_the_softmax_by_the_root", "Scaler::mup", "ratio(small_.model.head_dim, large_.model.head_dim)",
          "std::sqrt(ratio(small_.model.head_dim, large_.model.head_dim))", "run_scale"),
    fault("the_batchs_rate_is_linear", "Scaler::sqrt_batch", "std::sqrt(b)", "b", "run_scale"),
    fault("a_border_keeps_the_old_values", "find_phase", "found.options.follow_spec = true;", "", "run_phases"),
    fault("a_border_allows_no_changes", "find_phase", "if (is_guarded(key))", "if (false)", "run_phases"),
    fault("borders_are_not_kept", "kept_before", "border + 1", "border", "run_phases"),
    fault("a_phase_is_over_a_step_late", "phase_of", "border <= step", "border < step", "run_phases"),
    fault("phases_may_change_shapes", "refusal in compiler/spec/phases.cpp",
          "std::ranges::count(soft_model_keys(), path) == 0", "false", "run_phases"),
    fault("the_last_phase_may_end_early", "join_phases", "*end != steps", "false", "run_phases"),
]
