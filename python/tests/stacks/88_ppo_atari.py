"""PPO in one file after CleanRL: vectorised environments that are only arrays here, GAE, minibatches, annealed rate."""
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical

ENVS, STEPS, EPOCHS, MINIBATCHES, UPDATES = 64, 64, 3, 4, 3
rng = np.random.default_rng(1)
torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Envs:
    """Frames of Atari's size with rewards at random."""

    def reset(self):
        return rng.integers(0, 255, (ENVS, 4, 84, 84), dtype=np.uint8)

    def step(self, actions):
        return self.reset(), rng.standard_normal(ENVS).astype(np.float32), rng.random(ENVS) < 0.01


def layer_init(layer, std=np.sqrt(2), bias=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(
            layer_init(nn.Conv2d(4, 32, 8, stride=4)), nn.ReLU(), layer_init(nn.Conv2d(32, 64, 4, stride=2)), nn.ReLU(),
            layer_init(nn.Conv2d(64, 64, 3, stride=1)), nn.ReLU(), nn.Flatten(), layer_init(nn.Linear(64 * 7 * 7, 512)), nn.ReLU(),
        )
        self.actor, self.critic = layer_init(nn.Linear(512, 18), std=0.01), layer_init(nn.Linear(512, 1), std=1)

    def get_value(self, x):
        return self.critic(self.network(x / 255.0))

    def get_action_and_value(self, x, action=None):
        hidden = self.network(x / 255.0)
        probs = Categorical(logits=self.actor(hidden))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


envs, agent = Envs(), Agent().to(device)
optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
obs = torch.zeros((STEPS, ENVS, 4, 84, 84)).to(device)
actions, logprobs, rewards = (torch.zeros((STEPS, ENVS)).to(device) for _ in range(3))
dones, values = torch.zeros((STEPS, ENVS)).to(device), torch.zeros((STEPS, ENVS)).to(device)
next_obs, next_done = torch.Tensor(envs.reset()).to(device), torch.zeros(ENVS).to(device)
batch_size = ENVS * STEPS
for update in range(UPDATES):
    optimizer.param_groups[0]["lr"] = (1 - update / UPDATES) * 2.5e-4
    for step in range(STEPS):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        next_obs, reward, done = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).to(device).view(-1)
        next_obs, next_done = torch.Tensor(next_obs).to(device), torch.Tensor(done).to(device)
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages, last = torch.zeros_like(rewards).to(device), 0
        for t in reversed(range(STEPS)):
            alive = 1.0 - (next_done if t == STEPS - 1 else dones[t + 1])
            following = next_value if t == STEPS - 1 else values[t + 1]
            delta = rewards[t] + 0.99 * following * alive - values[t]
            advantages[t] = last = delta + 0.99 * 0.95 * alive * last
        returns = advantages + values
    b_obs, b_logprobs, b_actions = obs.reshape((-1, 4, 84, 84)), logprobs.reshape(-1), actions.reshape(-1)
    b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
    inds, clipfracs = np.arange(batch_size), []
    for epoch in range(EPOCHS):
        rng.shuffle(inds)
        for start in range(0, batch_size, batch_size // MINIBATCHES):
            mb = inds[start : start + batch_size // MINIBATCHES]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_actions.long()[mb])
            logratio = newlogprob - b_logprobs[mb]
            ratio = logratio.exp()
            with torch.no_grad():
                clipfracs += [((ratio - 1.0).abs() > 0.1).float().mean().item()]
            adv = b_advantages[mb]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.9, 1.1)).mean()
            newvalue = newvalue.view(-1)
            clipped = b_values[mb] + torch.clamp(newvalue - b_values[mb], -0.1, 0.1)
            v_loss = 0.5 * torch.max((newvalue - b_returns[mb]) ** 2, (clipped - b_returns[mb]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(update, loss.item(), np.mean(clipfracs))
