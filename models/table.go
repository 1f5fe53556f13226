package models

// The libraries that the models were built with, all on torch 2.11.0.
const (
	torch        = "torch 2.11.0, "
	torchvision  = "torchvision 0.26.0, "
	transformers = "transformers 5.17.0, "
	timm         = "timm, "
)

// Their licences.
const (
	bsd    = "BSD-3-Clause"
	apache = "Apache-2.0"
)

const (
	image224 = "float32 [batch, 3, 224, 224]"
	image256 = "float32 [batch, 3, 256, 256]"
	tokens   = "int64 [batch, 128]"
	tokens4  = "int64 [batch, 512]"
)

// sequence is the name of a text's length: TestOtherSequences.
var sequence = []string{"sequence"}

// image are the names of the last dimensions of images, whose sizes a convolutional network without fixed positions
// leaves open: TestOtherSizes.
var image = []string{"height", "width"}

// table names every built-in model. Forms is filled in from the embedded files.
var table = []Model{
	{Name: "alexnet", Source: torchvision + "alexnet()", Licence: bsd, Input: image224},
	{Name: "bert_base", Source: transformers + "BertForMaskedLM(BertConfig())", Licence: apache, Input: tokens,
		Sizes: sequence, traced: true},
	{Name: "conv_example", Source: "the worked example of Pytorch-Memory-Utils' modelsize_estimate: three convolutions, " +
		"two in-place ReLUs, a pool", Licence: apache, Input: "float32 [1, 3, 682, 700]"},
	{Name: "convnext_tiny", Source: torchvision + "convnext_tiny()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "densenet121", Source: torchvision + "densenet121()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "distilbert", Source: transformers + "DistilBertForMaskedLM(DistilBertConfig())", Licence: apache,
		Input: tokens, Sizes: sequence, traced: true},
	{Name: "dlrm", Source: torch + "a small recommendation model: 26 embedding tables, two towers, pairwise interaction",
		Licence: bsd, Input: "float32 [batch, 39]"},
	{Name: "efficientnet_b0", Source: torchvision + "efficientnet_b0()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "fcn_resnet50", Source: torchvision + "fcn_resnet50()", Licence: bsd, Input: image256, Sizes: image,
		traced: true},
	{Name: "gpt2", Source: transformers + "GPT2LMHeadModel(GPT2Config())", Licence: apache, Input: tokens4,
		Sizes: sequence, apart: true},
	{Name: "inception_v3", Source: torchvision + "inception_v3(aux_logits=False)", Licence: bsd,
		Input: "float32 [batch, 3, 299, 299]", Sizes: image},
	{Name: "llama_160m", Source: transformers + "LlamaForCausalLM of 12 layers, hidden size 768", Licence: apache,
		Input: tokens4, Sizes: sequence, apart: true},
	{Name: "lstm_lm", Source: torch + "a language model of two LSTM layers, hidden size 650", Licence: bsd, Input: tokens,
		Sizes: sequence, traced: true},
	{Name: "mixer_b16", Source: timm + "mixer_b16_224", Licence: apache, Input: image224},
	{Name: "mlp", Source: torch + "six layers of Linear(4096), GELU and Dropout", Licence: bsd,
		Input: "float32 [batch, 4096]"},
	{Name: "mobilenet_v2", Source: torchvision + "mobilenet_v2()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "mobilenet_v3_large", Source: torchvision + "mobilenet_v3_large()", Licence: bsd, Input: image224,
		Sizes: image},
	{Name: "mobilevit_s", Source: timm + "mobilevit_s", Licence: apache, Input: image256},
	{Name: "qwen2_0_5b", Source: transformers + "Qwen2ForCausalLM of 24 layers, hidden size 896, tied embeddings",
		Licence: apache, Input: tokens4},
	{Name: "r3d_18", Source: torchvision + "video.r3d_18()", Licence: bsd, Input: "float32 [batch, 3, 16, 112, 112]",
		Sizes: image},
	{Name: "regnety_016_timm", Source: timm + "regnety_016", Licence: apache, Input: image224, Sizes: image},
	{Name: "resnet18", Source: torchvision + "resnet18()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "resnet50", Source: torchvision + "resnet50()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "resnext50_32x4d", Source: torchvision + "resnext50_32x4d()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "shufflenet_v2_x1_0", Source: torchvision + "shufflenet_v2_x1_0()", Licence: bsd, Input: image224, Sizes: image,
		traced: true},
	{Name: "squeezenet1_1", Source: torchvision + "squeezenet1_1()", Licence: bsd, Input: image224, Sizes: image},
	{Name: "swin_t", Source: torchvision + "swin_t()", Licence: bsd, Input: image224},
	{Name: "t5_small", Source: transformers + "T5ForConditionalGeneration of 6 layers, hidden size 512", Licence: apache,
		Input: tokens, Sizes: sequence, traced: true},
	{Name: "torch_encoder", Source: torch + "nn.TransformerEncoder of 6 layers over an embedding", Licence: bsd,
		Input: tokens},
	{Name: "unet", Source: torch + "a U-Net of width 64, 3 channels in, 2 classes out", Licence: bsd, Input: image256,
		Sizes: image},
	{Name: "vgg16", Source: torchvision + "vgg16()", Licence: bsd, Input: image224},
	{Name: "vgg19_features", Source: torchvision + "vgg19().features", Licence: bsd, Input: image224, Sizes: image},
	{Name: "vit_b_16", Source: torchvision + "vit_b_16()", Licence: bsd, Input: image224},
}
