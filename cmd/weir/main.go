// Command weir is the worker, the job tools and the local playground of Weir in one binary.
package main

import "github.com/weirstream/weir"

func main() { weir.Main() }
