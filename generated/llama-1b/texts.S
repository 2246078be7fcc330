// Files next to this one that the trainer contains, each ended by a zero. XXH3-64 of each:
//   e65687c0466e81f9 plan.txt
//   87df67278d855f72 plan.json
//   a6bfbb92d067695d spec.yaml
//   5c357b5ba030ecbd config.json

    .section .rodata
    .globl llmc_plan_text
llmc_plan_text: .incbin "plan.txt"
    .byte 0
    .globl llmc_plan_json
llmc_plan_json: .incbin "plan.json"
    .byte 0
    .globl llmc_spec_yaml
llmc_spec_yaml: .incbin "spec.yaml"
    .byte 0
    .globl llmc_config_json
llmc_config_json: .incbin "config.json"
    .byte 0
    .section .note.GNU-stack, "", @progbits
