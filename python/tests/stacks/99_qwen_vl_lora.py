"""LoRA on a small Qwen2.5-VL: images of different sizes, windowed attention in the tower, frozen vision, labels masked, by a plain loop in bf16."""
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

torch.manual_seed(0)
IMAGE, START, END = 1000, 1001, 1002
config = Qwen2_5_VLConfig(
    text_config=dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=2,
                     rope_parameters={"rope_type": "default", "mrope_section": [16, 24, 24], "rope_theta": 1e6}),
    vision_config=dict(depth=8, hidden_size=768, intermediate_size=2048, num_heads=12, out_hidden_size=1024, fullatt_block_indexes=[3, 7], window_size=112),
    image_token_id=IMAGE, vision_start_token_id=START, vision_end_token_id=END,
)
model = Qwen2_5_VLForConditionalGeneration(config).to(torch.bfloat16)
model = get_peft_model(model, LoraConfig(r=16, target_modules=r".*language_model.*\.(q_proj|v_proj|up_proj|down_proj)")).cuda()
model.gradient_checkpointing_enable()
model.enable_input_require_grads()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for step in range(4):
    grids = torch.tensor([[1, 32 + 8 * step, 40], [1, 24, 48], [1, 40, 36], [1, 28, 28]])
    pixels = torch.randn(int(grids.prod(-1).sum()), 3 * 2 * 14 * 14, dtype=torch.bfloat16)
    counts, length = grids.prod(-1) // 4, 768
    ids = torch.randint(2000, 32000, (4, length))
    for row, n in zip(ids, counts.tolist()):
        row[0], row[1 : 1 + n], row[1 + n] = START, IMAGE, END
    labels = torch.where(ids < 2000, -100, ids)
    kinds = (ids == IMAGE).long()
    batch = dict(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels, pixel_values=pixels, image_grid_thw=grids, mm_token_type_ids=kinds)
    loss = model(**{k: v.cuda() for k, v in batch.items()}).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
