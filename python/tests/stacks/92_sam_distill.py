"""A student of torchvision under SAM (two backward passes a step), a frozen teacher in bf16, image size growing by epochs."""
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.backends.cudnn.benchmark = False
device = torch.device("cuda")


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        norm = torch.norm(torch.stack([p.grad.norm(p=2) for g in self.param_groups for p in g["params"] if p.grad is not None]), p=2)
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * scale.to(p))
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()


class Pictures(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return 160

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, self.size, self.size, generator=g), int(i % 100)


student = torchvision.models.efficientnet_b0(num_classes=100).to(device, memory_format=torch.channels_last)
teacher = torchvision.models.regnet_y_8gf(num_classes=100).to(device, dtype=torch.bfloat16, memory_format=torch.channels_last).eval()
teacher.requires_grad_(False)
optimizer = SAM(student.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9, weight_decay=1e-4)


def loss_of(images, labels, targets):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = student(images)
    soft = F.kl_div(F.log_softmax(logits.float() / 4, 1), F.softmax(targets.float() / 4, 1), reduction="batchmean") * 16
    return 0.7 * soft + 0.3 * F.cross_entropy(logits.float(), labels)


for epoch, size in enumerate((128, 160, 224)):
    for images, labels in DataLoader(Pictures(size), batch_size=64, shuffle=True):
        images = images.to(device, memory_format=torch.channels_last, non_blocking=True)
        labels = labels.to(device)
        with torch.no_grad():
            targets = teacher(images.bfloat16())
        loss = loss_of(images, labels, targets)
        loss.backward()
        optimizer.first_step(zero_grad=True)
        loss_of(images, labels, targets).backward()
        optimizer.second_step(zero_grad=True)
    print(epoch, loss.item())
