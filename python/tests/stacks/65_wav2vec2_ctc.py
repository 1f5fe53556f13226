"""wav2vec 2.0 with CTC: frozen feature encoder, lengths that differ."""
import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

torch.manual_seed(0)
model = Wav2Vec2ForCTC(Wav2Vec2Config(num_hidden_layers=8, vocab_size=40, ctc_loss_reduction="mean", mask_time_prob=0.0)).cuda()
model.freeze_feature_encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for seconds in (6, 8, 4):
    x = torch.randn(8, 16000 * seconds).cuda()
    mask = torch.ones(8, 16000 * seconds, dtype=torch.long).cuda()
    labels = torch.randint(1, 40, (8, 40)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_values=x, attention_mask=mask, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
