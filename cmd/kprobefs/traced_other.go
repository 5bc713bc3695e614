//go:build !amd64

package main

var oldCalls []tracedCall
