"""DP-SGD by torch.func: a gradient for each sample by vmap, clipped, with noise, in chunks; Hessian's trace at the end."""
import timm
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, jvp, vmap

torch.manual_seed(0)
device = "cuda"
timm.layers.set_fused_attn(False)  # fused attention has no forward derivative
model = timm.create_model("vit_small_patch16_224", num_classes=100, img_size=96).to(device)
parameters = {k: v.detach() for k, v in model.named_parameters()}
buffers = dict(model.named_buffers())
CLIP, NOISE, LR = 1.0, 1.1, 0.1


def loss_of(parameters, buffers, image, label):
    logits = functional_call(model, (parameters, buffers), (image.unsqueeze(0),))
    return F.cross_entropy(logits, label.unsqueeze(0))


per_sample = vmap(grad(loss_of), in_dims=(None, None, 0, 0), randomness="different", chunk_size=32)
momentum = {k: torch.zeros_like(v) for k, v in parameters.items()}
for step in range(4):
    images, labels = torch.randn(64, 3, 96, 96, device=device), torch.randint(0, 100, (64,), device=device)
    gradients = per_sample(parameters, buffers, images, labels)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    factor = (CLIP / (norms + 1e-6)).clamp(max=1.0)
    with torch.no_grad():
        for k, g in gradients.items():
            mean = torch.einsum("b...,b->...", g, factor)
            mean = (mean + NOISE * CLIP * torch.randn_like(mean)) / len(images)
            momentum[k].mul_(0.9).add_(mean)
            parameters[k] = parameters[k] - LR * momentum[k]
    print(step, norms.mean().item())


def batch_loss(parameters):
    return F.cross_entropy(functional_call(model, (parameters, buffers), (images,)), labels)


probe = {k: torch.randint_like(v, 2) * 2 - 1 for k, v in parameters.items()}
_, product = jvp(grad(batch_loss), (parameters,), (probe,))
print(sum((probe[k] * product[k]).sum() for k in probe).item())
