"""A language model of LSTM layers with truncated backpropagation through time and tied weights, fp32 with TF32."""
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = True
torch.manual_seed(0)


class RNNModel(nn.Module):
    def __init__(self, vocab=33278, width=1024):
        super().__init__()
        self.drop, self.encoder = nn.Dropout(0.4), nn.Embedding(vocab, width)
        self.rnn = nn.LSTM(width, width, 3, dropout=0.3)
        self.decoder = nn.Linear(width, vocab)
        self.decoder.weight = self.encoder.weight

    def forward(self, x, state):
        out, state = self.rnn(self.drop(self.encoder(x)), state)
        return self.decoder(self.drop(out)), state


model = RNNModel().cuda()
optimizer = torch.optim.ASGD(model.parameters(), lr=30)
data = torch.randint(0, 33278, (35 * 5 + 1, 64)).cuda()
state = None
for i in range(0, 35 * 5, 35):
    x, y = data[i : i + 35], data[i + 1 : i + 36]
    if state is not None:
        state = tuple(s.detach() for s in state)
    optimizer.zero_grad()
    out, state = model(x, state)
    nn.functional.cross_entropy(out.view(-1, 33278), y.reshape(-1)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
