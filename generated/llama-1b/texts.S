// Files next to this one that the trainer contains, each ended by a zero.

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
