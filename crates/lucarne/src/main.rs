//! The `lucarne` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = lucarne::single_dash::arguments(std::env::args_os());
    lucarne::run(&lucarne::usage::parse(&arguments))
}
