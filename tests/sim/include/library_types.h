// Stand-in for CUDA's names of number types: those of llmc's GEMMs.
#pragma once

enum cudaDataType_t { CUDA_R_32F, CUDA_R_16BF, CUDA_R_8F_E4M3 };
using cudaDataType = cudaDataType_t;
