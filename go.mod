module github.com/memestimate/memestimate

go 1.26
