module github.com/memestimate/memestimate

go 1.26

require (
	github.com/klauspost/compress v1.20.0
	github.com/spf13/cobra v1.10.2
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
)
