//! What does the kernel of this machine say? One typed value for each of its files; nothing is decided here.
