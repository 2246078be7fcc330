// Declares the commands of llmc. Each adds itself to the parser; its callback stores the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace llmc::cli {

/// Set by the command that ran.
struct Result {
  int exit_code = 0;
  std::vector<std::string> trainer_arguments;  // of `llmc run SPEC -- ...`, set before the command runs
};

void add_spec_commands(CLI::App& app, Result& result);   // check, config, schema, explain, init
void add_plan_commands(CLI::App& app, Result& result);   // plan, diff
void add_build_commands(CLI::App& app, Result& result);  // emit, compile, run
void add_sweep_command(CLI::App& app, Result& result);   // sweep
void add_scale_command(CLI::App& app);                   // scale
void add_verify_command(CLI::App& app, Result& result);  // verify
void add_data_commands(CLI::App& app, Result& result);   // data build, info, look, verify
void add_checkpoint_commands(CLI::App& app,
                             Result& result);            // checkpoint ls, show, verify, diff, prune, export, average
void add_run_commands(CLI::App& app, Result& result);    // runs, report
void add_device_commands(CLI::App& app);                 // devices
void add_calibrate_command(CLI::App& app);               // calibrate
void add_sizes_command(CLI::App& app);                   // sizes
void add_doctor_command(CLI::App& app, Result& result);  // doctor

}  // namespace llmc::cli
