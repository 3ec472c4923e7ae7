//! The `lucarne` binary.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = lucarne::single_dash::arguments(std::env::args_os());
    lucarne::run(&lucarne::cli::Cli::parse_from(arguments))
}
