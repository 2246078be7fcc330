// Parts of a layer for `trainer calibrate` to time. Included at the end of the step, whose offsets it uses.
#pragma once

namespace llmc {

void run_piece(Step& s, StepPiece piece, std::size_t layer) {
  if (piece == StepPiece::attention_forward) {
    float* qkv = s.at<float>(kKept + 2105344 + layer * kKeptStride);            // [2048, 512], over qkv_raw
    float* attention_out = s.at<float>(kKept + 6299648 + layer * kKeptStride);  // [2048, 256]
    float* attention_lse = s.at<float>(kKept + 8396800 + layer * kKeptStride);  // [64, 256]

    launch(s.stream, attention_forward, qkv, attention_out, attention_lse);
  }
  if (piece == StepPiece::attention_backward) {
    float* d_attention_out = s.at<float>(kTransients + 4194304);                // [2048, 256]
    float* attention_out = s.at<float>(kKept + 6299648 + layer * kKeptStride);  // [2048, 256]
    float* qkv = s.at<float>(kKept + 2105344 + layer * kKeptStride);            // [2048, 512], over qkv_raw
    float* attention_lse = s.at<float>(kKept + 8396800 + layer * kKeptStride);  // [64, 256]
    float* d_qkv = s.at<float>(kTransients);                                    // [2048, 512]
    float* attention_workspace = s.at<float>(kTransients + 6291456);            // [16384, 32]

    launch(s.stream, attention_backward, d_attention_out, attention_out, qkv, attention_lse, d_qkv,
           attention_workspace);
  }
  if (piece == StepPiece::kernels) {
    constexpr bool first = true;
    float* x = s.at<float>(kStream + layer * kStreamStride);                             // [2048, 256]
    float* attention_norm_weight = s.at<float>(kMasters + 4 * layer * kLayerVectors);    // [256]
    float* attention_norm_out = s.at<float>(kKept + layer * kKeptStride);                // [2048, 256]
    float* attention_norm_rstd = s.at<float>(kKept + 2097152 + layer * kKeptStride);     // [2048]
    float* qkv_raw = s.at<float>(kKept + 2105344 + layer * kKeptStride);                 // [2048, 512]
    float* rope_table = s.at<float>(kRopeTable);                                         // [256, 32]
    float* x_mid = s.at<float>(kKept + 8462336 + layer * kKeptStride);                   // [2048, 256]
    float* mlp_norm_weight = s.at<float>(kMasters + 4 * (256 + layer * kLayerVectors));  // [256]
    float* mlp_norm_out = s.at<float>(kKept + 10559488 + layer * kKeptStride);           // [2048, 256]
    float* mlp_norm_rstd = s.at<float>(kKept + 12656640 + layer * kKeptStride);          // [2048]
    float* gate_up_out = s.at<float>(kKept + 12664832 + layer * kKeptStride);            // [2048, 1536]
    float* swiglu_out = s.at<float>(kKept + 25247744 + layer * kKeptStride);             // [2048, 768]
    float* d_swiglu_out = s.at<float>(kTransients + 12582912);                           // [2048, 768]
    float* d_gate_up_out = s.at<float>(kTransients);                                     // [2048, 1536]
    float* d_mlp_norm_out = s.at<float>(kTransients + 12582912);                         // [2048, 256]
    float* d_x_next = s.at<float>(kTransients + 18874368);                               // [2048, 256]
    float* d_x_mid = s.at<float>(kTransients + 18874368);                                // [2048, 256], over d_x_next
    float* mlp_norm_backward_partial = s.at<float>(kTransients);                         // [256, 256]
    float* mlp_norm_backward_folded = s.at<float>(kTransients);  // [32, 256], over mlp_norm_backward_partial
    float* d_mlp_norm_weight = s.at<float>(kGradients + 4 * (256 + layer * kLayerVectors));  // [256]
    float* d_qkv = s.at<float>(kTransients);                                                 // [2048, 512]
    float* d_attention_norm_out = s.at<float>(kTransients + 4194304);                        // [2048, 256]
    float* d_x = s.at<float>(kTransients + 18874368);                   // [2048, 256], over d_x_next
    float* attention_norm_backward_partial = s.at<float>(kTransients);  // [256, 256]
    float* attention_norm_backward_folded =
        s.at<float>(kTransients);  // [32, 256], over attention_norm_backward_partial
    float* d_attention_norm_weight = s.at<float>(kGradients + 4 * layer * kLayerVectors);  // [256]

    launch(s.stream, rms_norm_forward, x, attention_norm_weight, attention_norm_out, attention_norm_rstd);
    launch(s.stream, rope, qkv_raw, rope_table);
    launch(s.stream, rms_norm_forward, x_mid, mlp_norm_weight, mlp_norm_out, mlp_norm_rstd);
    launch(s.stream, swiglu_forward, gate_up_out, swiglu_out);
    launch(s.stream, swiglu_backward, d_swiglu_out, gate_up_out, d_gate_up_out, nullptr);
    launch(s.stream, rms_norm_backward_residual, d_mlp_norm_out, x_mid, mlp_norm_weight, mlp_norm_rstd, d_x_next,
           d_x_mid, mlp_norm_backward_partial, nullptr);
    launch(s.stream, column_reduce_to_32_256, mlp_norm_backward_partial, mlp_norm_backward_folded, false);
    launch(s.stream, column_reduce_256, mlp_norm_backward_folded, d_mlp_norm_weight, !first);
    launch(s.stream, rope_inverse, d_qkv, rope_table);
    launch(s.stream, rms_norm_backward_residual, d_attention_norm_out, x, attention_norm_weight, attention_norm_rstd,
           d_x_mid, d_x, attention_norm_backward_partial, nullptr);
    launch(s.stream, column_reduce_to_32_256, attention_norm_backward_partial, attention_norm_backward_folded, false);
    launch(s.stream, column_reduce_256, attention_norm_backward_folded, d_attention_norm_weight, !first);
  }
}

}  // namespace llmc
