// Package onnxload reads ONNX files without their weights.
package onnxload

type source struct{}

type payload struct{}
