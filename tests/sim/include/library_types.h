// Stand-in for CUDA's names of number types: those that llmc's products have.
#pragma once

enum cudaDataType_t { CUDA_R_32F, CUDA_R_16BF };
using cudaDataType = cudaDataType_t;
