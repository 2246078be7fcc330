"""Faults of Muon: its kernels, its products, the ranks that own matrices."""

from faults import fault

PLAN, RANKS = "test_plan Muon.*", "run_optimizer_state"
REFERENCE = "reference_muon"

FAULTS = [
    # kernels
    fault("muon_direction_without_nesterov", "muon_momentum", "g = fma(mu, m - clipped, clipped);", "g = m;",
          "test_templates MuonMomentum.IsPyTorchsFormula"),
    fault("muon_momentum_of_unclipped_gradients", "muon_momentum", "const float clipped = g * clip;",
          "const float clipped = g;", "test_templates MuonMomentum.IsPyTorchsFormula"),
    fault("muon_momentum_of_the_host", "muon_momentum", "own.momentum[unknown]", "own.momentum[0]",
          "test_templates MuonMomentum.IsPyTorchsFormula"),
    fault("muon_momentum_in_a_skipped_step", "muon_momentum in templates/muon_momentum.cu",
          "if (results->skipped) return;", "", "test_templates MuonMomentum.LeavesOthers*"),
    fault("muon_momentum_of_all_groups", "muon_momentum", "if (!(kGroups >> chunk.group & 1)) continue;", "",
          "test_templates MuonMomentum.LeavesOthers*"),
    fault("muon_takes_a_skipped_step", "muon", "if (results->skipped) return;", "",
          "test_templates Muon.LeavesOthers*"),
    fault("muon_updates_all_groups", "muon", "if (!(kGroups >> chunk.group & 1)) continue;", "",
          "test_templates Muon.LeavesOthers*"),
    fault("muon_caution_of_the_wrong_sign", "muon", "cautious && d * p < 0.0f", "cautious && d * p > 0.0f",
          "test_templates Muon.IsItsFormula"),
    fault("muon_without_decay", "muon", "p : p * keep);", "p : p);", "test_templates Muon.IsItsFormula"),
    fault("norms_of_rows_with_padding", "row_norms", "lanes.row<kCols, kPitch>(x, row)",
          "lanes.row<kPitch, kPitch>(x, row)", "test_templates MuonRows*.HaveTheirNorms"),
    fault("zeros_keep_their_sign", "scale_rows", "fma(v, factor, 0.0f)", "v * factor",
          "test_templates MuonRows*.AreMultiplied*"),
    fault("polar_express_without_its_margin", "muon_factors", "fma(1.02f, whole, 1e-6f)", "whole",
          "test_templates MuonFactors.Bring*"),
    fault("rows_of_zeros_are_divided", "muon_factors", "n > 0.0f ? mean / n * inverse : 0.0f", "mean / n * inverse",
          "test_templates MuonFactors.Bring*"),
    fault("original_scaling_of_wide_matrices", "muon_factors",
          "kRows < kCols ? 1.0f : static_cast<float>(kRows) / kCols", "static_cast<float>(kRows) / kCols",
          "test_templates MuonFactors.AreTheSize*"),
    fault("equilibrated_results_keep_their_norm", "muon_factors", "size * sqrt(kShort) / (norm", "size * 1.0f / (norm",
          "test_templates MuonFactors.AreTheSize*"),
    fault("clear_ends_early", "clear", "(count + kPart - 1) / kPart", "count / kPart", "test_templates Clear.*"),
    # graph and plan
    fault("q_k_and_v_are_one_matrix", "orthogonal_matrices", "piece.begin, piece.size,", "0, t.rows,", REFERENCE),
    fault("tall_matrices_from_the_left", "Orthogonalising::Orthogonalising", "tall_ = matrix.rows > matrix.cols;",
          "tall_ = matrix.rows < matrix.cols;", PLAN),
    fault("muon_updates_the_embedding", "choose_optimizers", "group.role != ParameterRole::matrices",
          "group.role == ParameterRole::vectors", PLAN),
    fault("polynomials_swap_b_and_c", "Orthogonalising::iteration", ".alpha = c, .beta = b", ".alpha = b, .beta = c",
          REFERENCE),
    fault("all_layers_in_one_window", "Builder::optimizer_step", "!to.empty() && gradients_", "!to.empty() && weights_",
          PLAN),
    fault("every_rank_owns_all_matrices", "work in compiler/ops/muon/clear_others.cpp", "s.owns(layer, {}) ? 0 : {}",
          "false ? {} : {}", RANKS),
    fault("owners_by_number", "MatrixOwners", "std::ranges::min_element(work_)",
          "work_.begin() + matrix % work_.size()", PLAN),
    fault("half_of_a_head_as_aligned_as_the_head", "qk_norm_rope", "lanes.row<kHalf>(from, 2 * head + 1)",
          "lanes.row<kHalf, kHalf, kHeadDim>(from + kHalf, head)", "sim_gradients_qwen3"),
    fault("momentum_counts_steps_from_one", "muon in runtime/program/optimizers.h", ".momentum = {momentum(updates),",
          ".momentum = {momentum(updates + 1),", REFERENCE),
]
