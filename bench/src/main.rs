//! Measures the cost of the real `lucarne` binary. The scripts `bench/add-chain`, `bench/day`,
//! `bench/read`, `bench/fsck`, `bench/load`, `bench/large`, `bench/many`, `bench/compare`,
//! `bench/floor`, `bench/stores` and `bench/instances` run it.

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
mod http2;
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
#[command(about = "Measures the cost of submissions to a log and of reads")]
struct Options {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Options that all measurements share.
#[derive(Clone, clap::Args)]
struct Common {
    /// Path of the lucarne binary to measure
    #[arg(long, default_value = "target/dist/lucarne")]
    binary: PathBuf,
    /// Core that the server runs on [default: any]
    #[arg(long)]
    server_core: Option<usize>,
    /// Directory for prepared chains, kept between runs
    #[arg(long, default_value = "target/bench")]
    store: PathBuf,
}

#[derive(Subcommand)]
enum Command {
    /// Submit prepared chains; without options, print the whole table
    AddChain(add_chain::Options),
    /// Submit prepared chains at the rates of an ordinary day, over HTTP and HTTPS
    Day(day::Options),
    /// Read tiles and checkpoints, and compare with nginx
    Read(read::Options),
    /// Check all files of a log
    Fsck(fsck::Options),
    /// Run the same load on two logs in turn
    Compare(compare::Options),
    /// Measure a bare server that decodes, verifies and signs
    Floor(floor::Options),
    /// Run the bare server of `floor`
    #[command(hide = true)]
    FloorServer(floor::ServerOptions),
    /// Submit to logs on object stores and on a disk
    Stores(stores::Options),
    /// Measure the cost of `lucarne load` itself
    Load(own::Options),
    /// Measure logs and dedup indices of any size
    Large(large::Options),
    /// Run many idle or retired logs
    Many(many::Options),
    /// Run three instances of one log
    Instances(instances::Options),
    /// Add entries to an index and crash
    #[command(hide = true)]
    LargeKilled(large::index::KilledOptions),
    /// Run the log that `load` submits to
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

/// Raises the limit of open files: a thousand connections need more than the usual limit of a
/// shell, here and in the server, which inherits the limit.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
}
