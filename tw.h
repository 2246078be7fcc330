#include "device/types.h"
#define LLMC_PARAMS_GIVEN
namespace llmc {
using Act = bf16;
constexpr int kBatch = 2, kSequence = 2048, kHeads = 32, kKvHeads = 8, kHeadDim = 64, kPitch = 48*64;
constexpr int kOutPitch = 32*64, kLanes = 128;
constexpr float kScale = 0.125f;
constexpr float kSoftcap = 50.0f;
}
