"""Faults of llmc itself: compiler/."""

from faults import fault

FAULTS = [
    # data
    fault("no_validation_of_few_documents", "compiler/data/split.cpp", "force_smallest_ = fraction_ > 0 && validation_ == 0;",
          "force_smallest_ = false;", "test_data Split.IsByContentAndLeavesNoSideEmpty"),
    fault("cut_before_the_line_break", "compiler/data/split.cpp", "return line_end + 1;", "return line_end;",
          "test_data Split.OneDocumentIsCutAtALineEnd"),
    fault("wide_tokens_cut_to_16_bits", "compiler/data/shard_writer.cpp", "append_as<std::uint32_t>(buffer_, tokens.first(taken));",
          "append_as<std::uint16_t>(buffer_, tokens.first(taken));", "test_data ShardWriter.WideTokens"),
    fault("one_file_named_twice_counts_twice", "compiler/data/corpus.cpp", "  files.erase(repeated.begin(), repeated.end());\n",
          "  (void)repeated;\n", "test_data FindCorpusFiles.*"),
    # build
    fault("killed_compilers_succeed", "compiler/build/process.cpp", ": 128 + WTERMSIG(status);", ": 0;",
          "test_build Process.ASignalIs128AndItsNumber"),
    fault("objects_of_older_headers", "compiler/build/compile.cpp", ".add(headers).add(kernel", ".add(kernel", "run_compile"),
    # report
    fault("hunks_forget_added_lines", "compiler/report/unified.cpp", "b_count += lines[end].mark != '-';", "b_count += lines[end].mark == ' ';",
          "test_report UnifiedDiff.*"),
    fault("diff_of_names_alone", "compiler/report/diff.cpp", "without_identity(in_a->second) == without_identity(in_b->second);",
          "without_identity(in_a->second).empty() == without_identity(in_b->second).empty();", "run_diff"),
    # cli
    fault("init_replaces_a_file", "compiler/cli/spec_commands.cpp",
          """  if (access(path.c_str(), F_OK) == 0) throw Failure(Exit::usage, path + " exists; name another file with -o");\n""", "",
          "run_cli"),
    fault("check_of_a_wrong_spec_exits_with_0", "compiler/cli/spec_commands.cpp", "return static_cast<int>(Exit::spec);", "return 0;",
          "run_cli"),
    # spec
    fault("mb_is_mib", "runtime/spec/scalars.cpp", "{\"MB\", 1000000},", "{\"MB\", kMi},", "test_spec Bytes.EverySuffix"),
    fault("ti_is_gi", "runtime/spec/scalars.cpp", "{\"Ti\", kTi},", "{\"Ti\", kGi},", "test_spec Bytes.EverySuffix"),
    fault("fingerprint_of_run_time_keys", "runtime/spec/fingerprint.cpp", "key.stage == Stage::compiled && applies(key, spec)",
          "applies(key, spec)", "test_spec Load.FingerprintIsOfWhatIsCompiledIn"),
    fault("overlong_utf8", "runtime/spec/source.cpp", "  if (first == 0xe0 && byte(1) < 0xa0) return 0;  // overlong\n", "",
          "test_spec Utf8.StrictForms"),
    # graph
    fault("biases_have_no_gradient", "compiler/ops/linear.cpp", "  if (op.bias) b.emit(OpKind::column_sum,",
          "  if (op.residual) b.emit(OpKind::column_sum,", "test_graph Gradients.*"),
    fault("tied_gradient_is_zeroed", "compiler/ops/embedding.cpp", "if (!b.is_written(dtable))", "if (b.is_written(dtable))",
          "test_graph Gradients.ATiedTableGetsBothGradients"),
    fault("verifier_lets_reads_before_writes", "compiler/passes/verify.cpp", "} else if (!from_outside(region, id)) {",
          "} else if (false && !from_outside(region, id)) {", "test_graph Verify.FindsEveryKindOfDamage"),
    # passes
    fault("bf16_rows_of_8_bytes", "compiler/passes/pad_rows.cpp", "vector_of(spec.compute);", "vector_of(DType::f32);",
          "test_graph Passes.RowsArePaddedTo16Bytes"),
    # plan
    fault("lifetimes_without_their_last_op", "compiler/plan/packing.cpp", "if (items[other].first <= item.last && item.first",
          "if (items[other].first < item.last && item.first", "test_plan Packing.*"),
    fault("depth_scale_without_its_2", "compiler/plan/parameters.cpp", "static_cast<double>(spec.model.hidden_size) * 2.0 *",
          "static_cast<double>(spec.model.hidden_size) *", "test_plan Parameters.InitialWeightsHaveTheStdOfTheirRule"),
    fault("norms_and_biases_decay", "compiler/graph/llama.cpp", "piece.matrix = piece.decay = false;",
          "piece.matrix = false;", "test_plan Parameters.DecayIsForMatricesOnly"),
    fault("budget_of_the_arena_is_refused", "compiler/plan/planner.cpp",
          "plan.layout.arena.bytes <= static_cast<std::size_t>(plan.spec.memory.budget)",
          "plan.layout.arena.bytes < static_cast<std::size_t>(plan.spec.memory.budget)", "test_plan Arena.ABudgetOfExactlyItsBytesIsEnough"),
    fault("slower_backward_first", "compiler/ops/attention_choice.cpp", "return a.predicted_ms < b.predicted_ms; }",
          "return a.predicted_ms > b.predicted_ms; }", "test_plan AttentionChoice.BothWaysByPredictedTime"),
    fault("stream_of_the_last_layer_has_no_place", "compiler/plan/layout.cpp", "static_cast<std::size_t>(g_.layers() + 1));",
          "static_cast<std::size_t>(g_.layers()));", "test_plan Arena.*"),
    fault("folds_vectors_of_any_machine", "compiler/emit/specialiser/collector.h",
          "return input_.target == spec::TargetKind::cpu && !input_.arch.empty(); }",
          "return input_.target == spec::TargetKind::cpu; }", "test_specialiser Fold.WhatDependsOnTheMachineStays"),
    fault("attention_flops_not_halved", "compiler/plan/cost.cpp", "cost.attention_flops_per_token = 6 * layers", "cost.attention_flops_per_token = 12 * layers",
          "test_plan Cost.Llama1b"),
    # specialiser
    fault("floats_without_their_f", "compiler/emit/specialiser/literal.cpp", """return shortest(value) + "f";""", "return shortest(value);",
          "test_specialiser Fold.*"),
    fault("edits_may_overlap", "compiler/emit/specialiser/edits.cpp", "if (edit.range.begin < at) {", "if (edit.range.end < at) {",
          "test_specialiser Edits.OverlapsAreRefused"),
    # emit
    fault("one_random_stream_for_all_parameters", "compiler/emit/program_printer.cpp", "XXH64(s.name.data(), s.name.size(), 0)",
          "XXH64(s.name.data(), 0, 0)", "reference_run"),
    fault("initial_weights_ignore_the_seed", "compiler/ops/weights.cpp", "std::to_string(c.flat.tensors), \"seed\"})};",
          "std::to_string(c.flat.tensors), \"seed * 0\"})};", "reference_run"),
]
