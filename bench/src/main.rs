//! Runs the real `lucarne` binary and measures its cost. These scripts start the measurements:
//! `bench/add-chain`, `bench/day`, `bench/read`, `bench/load`, `bench/large`, `bench/many`,
//! `bench/compare`, `bench/floor`, `bench/stores`, `bench/instances`.

mod add_chain;
mod answering;
mod authorities;
mod chains;
mod compare;
mod connection;
mod day;
mod endpoint;
mod floor;
mod fsck;
mod instances;
mod large;
mod load;
mod many;
mod nginx;
mod own;
mod read;
mod stores;
mod syncs;
mod table;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "What submitting to and reading from a log costs")]
struct Options {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// The options that all measurements share.
#[derive(Clone, clap::Args)]
struct Common {
    /// The lucarne binary to measure
    #[arg(long, default_value = "target/release/lucarne")]
    binary: PathBuf,
    /// The core that the server runs on (none: wherever it likes)
    #[arg(long)]
    server_core: Option<usize>,
    /// Where pre-made chains are kept between runs
    #[arg(long, default_value = "target/bench")]
    store: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Submits pre-made chains; without options, prints the whole table
    AddChain(add_chain::Options),
    /// Submits pre-made chains at the rates of an ordinary day, over HTTP and HTTPS
    Day(day::Options),
    /// Reads tiles and checkpoints, beside nginx
    Read(read::Options),
    /// Checks all files of a log
    Fsck(fsck::Options),
    /// Runs the same load on two logs in turn
    Compare(compare::Options),
    /// Measures a bare server that decodes, verifies and signs
    Floor(floor::Options),
    /// Is that server
    #[command(hide = true)]
    FloorServer(floor::ServerOptions),
    /// Submits to logs on object stores, and on a disk
    Stores(stores::Options),
    /// Measures what `lucarne load` itself costs
    Load(own::Options),
    /// Measures logs and dedup indices of any size
    Large(large::Options),
    /// Runs many logs that are idle or retired
    Many(many::Options),
    /// Runs three instances of one log
    Instances(instances::Options),
    /// Adds to an index and dies
    #[command(hide = true)]
    LargeKilled(large::index::KilledOptions),
    /// Is the log that it is measured with
    #[command(hide = true)]
    SctServer(own::server::Options),
}

fn main() -> Result<()> {
    let options = Options::parse();
    raise_file_limit();
    match options.command {
        Command::AddChain(command) => add_chain::run(&options.common, &command),
        Command::Day(command) => day::run(&options.common, &command),
        Command::Read(command) => read::run(&options.common, &command),
        Command::Fsck(command) => fsck::run(&options.common, &command),
        Command::Compare(command) => compare::run(&options.common, &command),
        Command::Floor(command) => floor::run(&options.common, &command),
        Command::FloorServer(command) => floor::serve(&command),
        Command::Stores(command) => stores::run(&options.common, &command),
        Command::Load(command) => own::run(&options.common, &command),
        Command::Large(command) => large::run(&options.common, &command),
        Command::Many(command) => many::run(&options.common, &command),
        Command::Instances(command) => instances::run(&options.common, &command),
        Command::LargeKilled(command) => large::index::die(&command),
        Command::SctServer(command) => own::server::serve(&command),
    }
}

/// Raises the limit of open files. A thousand connections need more files than a shell usually
/// allows, here and in the server, which inherits the limit.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
}
