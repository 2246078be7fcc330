// Element types shared by kernels, the runtime and the emitted step.
#pragma once

// Operands of a kernel after those that all instances of its template have; a run's params define them.
#ifndef LLMC_FURTHER_OPERANDS
#define LLMC_FURTHER_OPERANDS
#endif

#if defined(__CUDACC__) || defined(__CUDA__)
#define LLMC_HD __host__ __device__
#else
#define LLMC_HD
#endif

namespace llmc {

/// IEEE-754 binary32 truncated to its upper 16 bits. A plain struct, so that parsing a kernel needs no toolkit header.
struct bf16 {
  unsigned short bits;
};

/// IEEE-754 binary16.
struct fp16 {
  unsigned short bits;
};

/// Numbers of 8 bits (device/fp8.h).
struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};

/// The part of an fp32 number that its bf16 lacks: 16 bits, and of eight numbers a bit each (device/split.h).
struct rest16 {
  unsigned short bits;
};
struct ties8 {
  unsigned char bits;
};

/// Codes of 8 bits of the optimizer's moments (device/dynamic_map.h): numbers in [-1, 1], and in [0, 1].
struct dynamic8 {
  unsigned char bits;
};
struct udynamic8 {
  unsigned char bits;
};

/// A scale: a power of two without sign (device/block_scales.h).
struct e8m0 {
  unsigned char bits;
};

/// Sent by the host to the device before each optimizer step in one copy; no host value is baked into a captured graph.
struct StepScalars {
  float clip_norm;                    // gradients are scaled to at most this norm; 0 disables clipping
  float loss_scale;                   // 1 / number of targets in the global batch that are not -1
  float requests;                     // requests to this rank from outside (train/signals.h); passed on to StepResults
  float loss_limit, grad_norm_limit;  // above these the update is skipped; infinite: no limit
};

/// Same, for AdamW.
struct AdamwScalars {
  float beta1, beta2;  // decay rates of the moments
  float eps;           // added to sqrt(v_hat)
  unsigned updates;    // applied, as known to the host; the device may have applied one more: StepResults::updates
  // 1 - beta^t of the next update: [0] if the host knows of all updates, [1] if there was one more.
  float bias_correction1[2], bias_correction2[2];
};

/// Same, for Lion.
struct LionScalars {
  float beta1, beta2;  // weights of the momentum in an update's direction, and in the next momentum
};

/// Same, for Muon.
struct MuonScalars {
  unsigned updates = 0;        // as AdamwScalars::updates
  float momentum[2] = {0, 0};  // weight of the momentum in the next update: [0] if the host knows of all updates, [1]
                               // if there was one more
  int equilibrate = 0;  // rows are brought to their mean norm before, and the result to norm sqrt(min(rows, cols))
  int original = 0;     // updates are scaled by sqrt(max(1, rows / cols)), not to the size of AdamW's
  int cautious = 0;     // a weight decays only where its update has its sign
  float beta2 = 0;      // decay rate of the second moment of neurons
  float eps = 0;        // added to its root
};

/// Same, for the optimizer's work on one group of parameters.
struct GroupScalars {
  float lr;            // learning rate of this step
  float weight_decay;  // decoupled, multiplied by lr
};

/// Reason for skipping an update.
enum SkipReason : int { kApplied = 0, kNotFinite = 1, kLossAbove = 2, kGradNormAbove = 3, kOverflow = 4 };

/// With compute: fp16: the factor of all gradients, which keeps small ones above fp16's least number. The device
/// changes it after each step: doubles it after kGoodSteps steps with finite gradients, halves it after one without
/// (kOverflow).
struct LossScale {
  float factor = 65536;    // of the next step's gradients
  float last = 65536;      // of the last one's
  unsigned good = 0;       // steps with finite gradients since the factor changed
  unsigned overflows = 0;  // since the run's first step

  bool operator==(const LossScale&) const = default;
};
inline constexpr unsigned kGoodSteps = 2000;
/// Gradients that are not finite with this scale are not the scale's fault: kNotFinite.
inline constexpr float kLeastLossScale = 1;

/// Returned by the device to the host after each step.
struct StepResults {
  // Sums over micro-batches and ranks. Each adds its part of the mean over the global batch's targets to the first
  // four.
  double loss = 0;       // negative log-likelihood, nats
  double top1 = 0;       // fraction of targets with the largest logit of their row, ties included
  double lse = 0;        // log-sum-exp of the logits
  double entropy = 0;    // of the softmax, nats
  double requests = 0;   // of the ranks' StepScalars::requests
  double lse_max = 0;    // largest log-sum-exp of a row with a target
  float grad_norm = 0;   // global L2 norm before clipping
  float clip_scale = 0;  // factor applied to every gradient, LossScale's inverse included
  int skipped = 0;       // a SkipReason
  unsigned updates = 0;  // applied since the run's first step, modulo 2^32; never reset by a pass
};

/// How many of StepResults are sums over the ranks: all in front of `lse_max`. A sum that is added there is reduced
/// too.
inline constexpr int kSummedResults = static_cast<int>(__builtin_offsetof(StepResults, lse_max) / sizeof(double));

/// A range of elements of one parameter, the unit of optimizer work. `offset` is into the flat parameter buffers,
/// `state` into those of optimizer state, where each rank holds only its shard.
struct Chunk {
  long long offset, state;
  int length;     // at most ProgramInfo::chunk_elements; 0: owned by another rank
  int parameter;  // index into ProgramInfo::parameters
  int group;      // index into the step's GroupScalars
};

/// Rule for drawing the elements of one parameter: element (r, c) is draw number r * cols + c of stream (seed, key).
struct InitRule {
  long long offset;        // into the flat parameter buffers
  long long rows, cols;    // logical shape
  long long pitch;         // elements between rows
  unsigned long long key;  // hash of the Hugging Face name, so that a tensor's weights do not depend on other tensors
  float std;               // 0: every element is `value`
  float value;
};

}  // namespace llmc
