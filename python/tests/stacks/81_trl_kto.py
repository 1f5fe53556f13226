"""TRL's KTOTrainer on a small Qwen2 with LoRA, its reference being the model without its adapters."""
import tempfile

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import KTOConfig, KTOTrainer

set_seed(0)
words = [f"tok{i}" for i in range(6000)]
text = [" ".join(words[(i * 41 + j * 13) % 6000] for j in range(90 + i % 30)) for i in range(200)]
raw = Tokenizer(models.WordLevel(unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
raw.train_from_iterator(text, trainers.WordLevelTrainer(special_tokens=["<unk>", "<pad>", "<eos>"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", pad_token="<pad>", eos_token="<eos>")
rows = Dataset.from_list([{"prompt": t[:160], "completion": " " + t[160:], "label": i % 2 == 0} for i, t in enumerate(text)])
config = Qwen2Config(
    vocab_size=len(tokenizer), hidden_size=1024, intermediate_size=4096, num_hidden_layers=10, num_attention_heads=16, num_key_value_heads=4
)
arguments = KTOConfig(
    output_dir=tempfile.mkdtemp(), max_steps=6, per_device_train_batch_size=16, gradient_accumulation_steps=2, bf16=True,
    max_length=256, learning_rate=5e-6, logging_steps=2, save_strategy="no", report_to="none", desirable_weight=1.0,
)
lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
KTOTrainer(model=Qwen2ForCausalLM(config), args=arguments, train_dataset=rows, processing_class=tokenizer, peft_config=lora).train()
