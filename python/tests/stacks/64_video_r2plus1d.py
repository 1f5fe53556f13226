"""Video classification with 3-D convolutions and validation on longer clips."""
import torch
import torchvision

torch.manual_seed(0)
model = torchvision.models.video.r2plus1d_18(num_classes=101).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.01, 0.9, weight_decay=1e-4, nesterov=True)
for _ in range(3):
    x, y = torch.randn(8, 3, 16, 112, 112).cuda(), torch.randint(0, 101, (8,)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
    for _ in range(2):
        model(torch.randn(16, 3, 32, 112, 112).cuda())
