// Parts of a layer for `trainer calibrate` to time. Included at the end of the step, whose offsets it uses.
#pragma once

namespace llmc {

void run_piece(Step& s, StepPiece piece, std::size_t layer) {
  if (piece == StepPiece::attention_forward) {
    bf16* qkv = s.at<bf16>(kKept + 131072 + layer * kKeptStride);                 // [32768, 3072], over qkv_raw
    bf16* attention_out = s.at<bf16>(kKept + 201457664 + layer * kKeptStride);    // [32768, 2048]
    float* attention_lse = s.at<float>(kKept + 335675392 + layer * kKeptStride);  // [512, 2048]

    s.attention.forward(s.stream, qkv, attention_out, attention_lse);
  }
  if (piece == StepPiece::attention_backward) {
    bf16* d_attention_out = s.at<bf16>(kTransients + 1344274432);                 // [32768, 2048]
    bf16* attention_out = s.at<bf16>(kKept + 201457664 + layer * kKeptStride);    // [32768, 2048]
    bf16* qkv = s.at<bf16>(kKept + 131072 + layer * kKeptStride);                 // [32768, 3072], over qkv_raw
    float* attention_lse = s.at<float>(kKept + 335675392 + layer * kKeptStride);  // [512, 2048]
    bf16* d_qkv_raw = s.at<bf16>(kTransients + 1142947840);                       // [32768, 3072]
    float* attention_workspace = s.at<float>(kTransients);                        // [285736960]
    float* rope_table = s.at<float>(kRopeTable);                                  // [2048, 64]

    s.attention.backward(s.stream, d_attention_out, attention_out, qkv, attention_lse, d_qkv_raw, attention_workspace,
                         rope_table);
  }
  if (piece == StepPiece::kernels) {
    constexpr bool first = true;
    float* x = s.at<float>(kStream + layer * kStreamStride);                              // [32768, 2048]
    float* attention_norm_weight = s.at<float>(kMasters + 4 * layer * kLayerVectors);     // [2048]
    bf16* attention_norm_out = s.at<bf16>(kTransients);                                   // [32768, 2048]
    float* attention_norm_rstd = s.at<float>(kKept + layer * kKeptStride);                // [32768]
    bf16* qkv_raw = s.at<bf16>(kKept + 131072 + layer * kKeptStride);                     // [32768, 3072]
    float* rope_table = s.at<float>(kRopeTable);                                          // [2048, 64]
    float* x_mid = s.at<float>(kKept + 339869696 + layer * kKeptStride);                  // [32768, 2048]
    float* mlp_norm_weight = s.at<float>(kMasters + 4 * (2048 + layer * kLayerVectors));  // [2048]
    bf16* mlp_norm_out = s.at<bf16>(kTransients);                                         // [32768, 2048]
    float* mlp_norm_rstd = s.at<float>(kKept + 608305152 + layer * kKeptStride);          // [32768]
    bf16* gate_up_out = s.at<bf16>(kKept + 608436224 + layer * kKeptStride);              // [32768, 16384]
    bf16* swiglu_out = s.at<bf16>(kTransients);                                           // [32768, 8192]
    bf16* d_swiglu_out = s.at<bf16>(kTransients + 1610612736);                            // [32768, 8192]
    bf16* d_gate_up_out = s.at<bf16>(kTransients);                                        // [32768, 16384]
    bf16* d_mlp_norm_out = s.at<bf16>(kTransients + 1207959552);                          // [32768, 2048]
    bf16* d_x_next = s.at<bf16>(kTransients + 2147483648);                                // [32768, 2048]
    bf16* d_x_mid = s.at<bf16>(kTransients + 2147483648);                      // [32768, 2048], over d_x_next
    float* mlp_norm_backward_partial = s.at<float>(kTransients + 1342177280);  // [1024, 2048]
    float* mlp_norm_backward_folded =
        s.at<float>(kTransients + 1342177280);  // [32, 2048], over mlp_norm_backward_partial
    float* d_mlp_norm_weight = s.at<float>(kGradients + 4 * (2048 + layer * kLayerVectors));  // [2048]
    bf16* d_attention_norm_out = s.at<bf16>(kTransients + 134217728);                         // [32768, 2048]
    bf16* d_x = s.at<bf16>(kTransients + 2147483648);                               // [32768, 2048], over d_x_next
    float* attention_norm_backward_partial = s.at<float>(kTransients + 268435456);  // [1024, 2048]
    float* attention_norm_backward_folded =
        s.at<float>(kTransients + 268435456);  // [32, 2048], over attention_norm_backward_partial
    float* d_attention_norm_weight = s.at<float>(kGradients + 4 * layer * kLayerVectors);  // [2048]

    launch(s.stream, Grid{32768, 128}, rms_norm_forward, x, attention_norm_weight, attention_norm_out,
           attention_norm_rstd);
    launch(s.stream, Grid{32768, 128}, rope, qkv_raw, rope_table);
    launch(s.stream, Grid{32768, 128}, rms_norm_forward, x_mid, mlp_norm_weight, mlp_norm_out, mlp_norm_rstd);
    launch(s.stream, Grid{32768, 256}, swiglu_forward, gate_up_out, swiglu_out);
    launch(s.stream, Grid{32768, 256}, swiglu_backward_recompute, d_swiglu_out, gate_up_out, d_gate_up_out, swiglu_out);
    launch(s.stream, Grid{1024, 256}, rms_norm_backward_residual_recompute, d_mlp_norm_out, x_mid, mlp_norm_weight,
           mlp_norm_rstd, d_x_next, d_x_mid, mlp_norm_backward_partial, mlp_norm_out);
    launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, mlp_norm_backward_partial, mlp_norm_backward_folded,
           false);
    launch(s.stream, Grid{4, 128}, column_reduce_2048, mlp_norm_backward_folded, d_mlp_norm_weight, !first);
    launch(s.stream, Grid{1024, 256}, rms_norm_backward_residual_recompute, d_attention_norm_out, x,
           attention_norm_weight, attention_norm_rstd, d_x_mid, d_x, attention_norm_backward_partial,
           attention_norm_out);
    launch(s.stream, Grid{128, 128}, column_reduce_to_32_2048, attention_norm_backward_partial,
           attention_norm_backward_folded, false);
    launch(s.stream, Grid{4, 128}, column_reduce_2048, attention_norm_backward_folded, d_attention_norm_weight, !first);
  }
}

}  // namespace llmc
