// pause waits until it is killed. It is the process of a pod's sandbox.
package main

import "time"

func main() { time.Sleep(1<<63 - 1) }
