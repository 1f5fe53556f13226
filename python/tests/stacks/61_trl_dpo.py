"""TRL's DPOTrainer on a small Llama with LoRA; the tokenizer is trained here."""
import tempfile

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import DPOConfig, DPOTrainer

set_seed(0)
words = [f"word{i}" for i in range(4000)]
text = [" ".join(words[(i * 37 + j * 11) % 4000] for j in range(60)) for i in range(400)]
raw = Tokenizer(models.WordLevel(unk_token="[UNK]"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
raw.train_from_iterator(text, trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]", "[EOS]"]))
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="[UNK]", pad_token="[PAD]", eos_token="[EOS]")
rows = Dataset.from_list([{"prompt": t[:120], "chosen": " " + t[:300], "rejected": " " + t[100:380]} for t in text[:64]])
model = LlamaForCausalLM(
    LlamaConfig(vocab_size=len(tokenizer), hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8)
)
args = DPOConfig(
    output_dir=tempfile.mkdtemp(), max_steps=4, per_device_train_batch_size=8, bf16=True, max_length=256, logging_steps=1,
    save_strategy="no", report_to="none", gradient_checkpointing=False,
)
DPOTrainer(model=model, args=args, train_dataset=rows, processing_class=tokenizer, peft_config=LoraConfig(r=16, task_type="CAUSAL_LM")).train()
