package kernels

import "github.com/memestimate/memestimate/simulate/gpu"

// Measured is the device on which those rules were measured that follow from no source, and that stand for every
// device:
//
//   - which engine cuDNN takes for a convolution (conv_forest.go), and that float32 goes through tensor cores, which
//     have TF32 from compute capability 8.0 on alone, and bfloat16, likewise;
//   - what cuDNN takes for channels-last batch norm, recurrent layers and attention (batchNormWorkspace,
//     RNNShape.workspace, cudnnAttentionWorkspace);
//   - how many keys a block of CUB's radix sort takes (sortTile), and what the context of a process takes (package
//     gpu).
//
// What follows from sources takes the device that a run is for.
var Measured = gpu.Default()
