// Command hello is a program that lab's own tests build.
package main

import "fmt"

func main() { fmt.Println("hello") }
