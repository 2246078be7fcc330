#include "device/cuda/launch.h"

#include <string>

#include "device/cuda/check.h"

namespace llmc {

namespace {

void check_launch(cudaError_t error, const void* kernel) {
  if (error == cudaSuccess) return;
  const char* name = nullptr;
  if (cudaFuncGetName(&name, kernel) != cudaSuccess || !name) name = "of unknown name";
  check(error, ("kernel " + std::string(name)).c_str());
}

}  // namespace

void launch_kernel(Stream& stream, Grid grid, const void* kernel, void** addresses) {
  const Launched launched(stream.listener, stream, LaunchKind::kernel);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid.blocks);
  config.blockDim = dim3(grid.threads);
  config.stream = stream.handle;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {grid.cluster, 1, 1};
  config.attrs = &cluster;
  config.numAttrs = grid.cluster > 1;
  config.dynamicSmemBytes = grid.shared;
  // Always: without the attribute a block has 48 KiB, of which the memory that the kernel declares takes a part.
  if (grid.shared > 0)
    check_launch(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared)),
        kernel);
  check_launch(cudaLaunchKernelExC(&config, kernel, addresses), kernel);
}

}  // namespace llmc
