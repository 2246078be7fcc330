// Stand-in for CUDA's names of number types: those of llmc's GEMMs.
#pragma once

enum cudaDataType_t { CUDA_R_32F, CUDA_R_16BF };
using cudaDataType = cudaDataType_t;
