package spelling

import (
	"strconv"
	"strings"
)

// optimizers are other names: those of the Trainer of transformers, and what people say.
var optimizers = map[string]string{
	"adamw-torch": "adamw", "adamw-torch-fused": "adamw-fused", "adamw-torch-xla": "adamw", "fused-adamw": "adamw-fused",
	"fused-adam": "adam-fused",
	"momentum":   "sgdm", "sgd-momentum": "sgdm", "sgd-with-momentum": "sgdm", "sgd+momentum": "sgdm",
	"nesterov": "sgdm-nesterov", "sgd-nesterov": "sgdm-nesterov",
}

// elsewhere are optimizers that people use and torch.optim has not.
var elsewhere = []string{"8bit", "8-bit", "lion", "lamb", "lars", "sophia", "shampoo", "galore", "apollo", "ademamix",
	"schedulefree", "schedule-free", "fusedadam", "deepspeed", "adamw-hf", "adamw-anyprecision"}

// decoupled are the optimizers whose weight decay needs no memory: it is not added to the gradient.
var decoupled = map[string]bool{"adamw": true, "muon": true, "adafactor": true}

// Optimizer returns the name of an optimizer with its settings: "sgdm-wd" for "torch.optim.SGD(lr=0.1, momentum=0.9,
// weight_decay=1e-4)". Arguments that change no memory, such as lr, are left out.
func Optimizer(typed string) (string, error) {
	name, args, called := strings.Cut(strings.TrimSpace(typed), "(")
	name = plain(name)
	for _, module := range []string{"torch.optim.", "optim.", "transformers."} {
		name = strings.TrimPrefix(name, module)
	}
	for _, other := range elsewhere {
		if strings.Contains(name, other) {
			return "", &Error{typed + " is not of torch.optim, and not modelled",
				"adamw takes two states for each parameter, sgdm one"}
		}
	}
	if own, ok := optimizers[name]; ok {
		name = own
	}
	if !called {
		return name, nil
	}
	args, whole := strings.CutSuffix(strings.TrimSpace(args), ")")
	if !whole {
		return "", &Error{typed + " has no closing parenthesis", "for example SGD(momentum=0.9)"}
	}
	return withArguments(name, args)
}

// withArguments adds the settings that the arguments of an optimizer's constructor stand for.
func withArguments(name, args string) (string, error) {
	settings := ""
	for k, arg := range List(args) {
		arg = strings.TrimSpace(arg)
		key, value, named := strings.Cut(arg, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !named {
			if arg == "" || k < 2 { // the parameters, and the learning rate
				continue
			}
			return "", &Error{name + ": the argument " + arg + " has no name", "for example SGD(momentum=0.9)"}
		}
		number, err := strconv.ParseFloat(value, 64)
		on := value == "True" || value == "true" || err == nil && number != 0
		switch key {
		case "params", "lr", "betas", "eps", "alpha", "rho", "lr_decay", "lambd", "dampening", "maximize", "momentum_decay",
			"decoupled_weight_decay", "initial_accumulator_value":
		case "momentum":
			switch {
			case !on:
			case name == "sgd":
				name = "sgdm"
			case name == "rmsprop":
				settings += "-momentum"
			}
		case "weight_decay":
			if on && !decoupled[name] {
				settings += "-wd"
			}
		case "nesterov", "amsgrad", "centered", "fused":
			if on {
				settings += "-" + key
			}
		case "foreach":
			if !on {
				return "", &Error{name + ": foreach is a setting of its own", "--foreach=false"}
			}
		default:
			if on || value != "False" && value != "None" {
				return "", &Error{name + ": the argument " + key + " is not modelled", ""}
			}
		}
	}
	return name + settings, nil
}
