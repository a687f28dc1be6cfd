// Command hello is what the lab's own test builds.
package main

import "fmt"

func main() { fmt.Println("hello") }
