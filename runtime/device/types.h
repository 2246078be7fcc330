// Element types shared by kernels, the runtime and the emitted step.
#pragma once

#if defined(__CUDACC__) || defined(__CUDA__)
#define LLMC_HD __host__ __device__
#else
#define LLMC_HD
#endif

namespace llmc {

/// IEEE-754 binary32 cut to its upper 16 bits. A plain struct, so that no toolkit header is needed to parse a kernel.
struct bf16 {
  unsigned short bits;
};

/// What the host sends to the device before each optimizer step: one copy, no host value is baked into a captured
/// graph.
struct StepScalars {
  float clip_norm;                    // gradients are scaled to at most this norm; 0 disables clipping
  float loss_scale;                   // 1 / number of targets of the global batch that are not -1
  float requests;                     // what the outside asks of this rank (train/signals.h); passed on to StepResults
  float loss_limit, grad_norm_limit;  // above these the update is not applied; infinite: nothing is above
};

/// The same, for AdamW.
struct AdamwScalars {
  float beta1, beta2;  // decay rates of the moments
  float eps;           // added to sqrt(v_hat)
  unsigned updates;    // that the host knows of; the device may have applied one more, StepResults::updates
  // 1 - beta^t of the next update: [0] where the host knows of all, [1] where there is one more.
  float bias_correction1[2], bias_correction2[2];
};

/// The same, for Lion.
struct LionScalars {
  float beta1, beta2;  // weights of the momentum in an update's direction, and in the next momentum
};

/// The same, for the optimizer's work on one group of parameters.
struct GroupScalars {
  float lr;            // learning rate of this step
  float weight_decay;  // decoupled, multiplied by lr
};

/// Why an update was not applied.
enum SkipReason : int { kApplied = 0, kNotFinite = 1, kLossAbove = 2, kGradNormAbove = 3 };

/// What the device tells the host after each step.
struct StepResults {
  // Sums over micro-batches and ranks; of the first four each adds its part of the mean over the global batch's
  // targets.
  double loss = 0;       // negative log-likelihood, nats
  double top1 = 0;       // share of the targets that have the largest logit of their row, alone or with others
  double lse = 0;        // log-sum-exp of the logits
  double entropy = 0;    // of the softmax, nats
  double requests = 0;   // of the ranks' StepScalars::requests
  double lse_max = 0;    // the largest log-sum-exp of a row with a target
  float grad_norm = 0;   // global L2 norm before clipping
  float clip_scale = 0;  // factor applied to every gradient
  int skipped = 0;       // a SkipReason
  unsigned updates = 0;  // that were applied since the run's first step, modulo 2^32; no pass resets it
};

/// How many of StepResults are sums over the ranks: all in front of `lse_max`. A sum that is added there is reduced too.
inline constexpr int kSummedResults = static_cast<int>(__builtin_offsetof(StepResults, lse_max) / sizeof(double));

/// A run of elements of one parameter, the unit of optimizer work. `offset` is into the flat parameter buffers, `state`
/// into those of the optimizer's state, where each rank has its own share alone.
struct Chunk {
  long long offset, state;
  int length;     // at most kChunk; 0: another rank's
  int parameter;  // index into ProgramInfo::parameters
  int group;      // index into the step's GroupScalars
};

/// How the elements of one parameter are drawn: element (r, c) is draw number r * cols + c of stream (seed, key).
struct InitRule {
  long long offset;        // into the flat parameter buffers
  long long rows, cols;    // logical shape
  long long pitch;         // elements from row to row
  unsigned long long key;  // hash of the Hugging Face name, so that a tensor's weights do not depend on its neighbours
  float std;               // 0: every element is `value`
  float value;
};

}  // namespace llmc
