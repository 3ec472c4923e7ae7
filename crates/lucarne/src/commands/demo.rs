//! `lucarne demo`: a complete log in one directory and one command.

mod authorities;
mod cosigners;
mod half;
mod home;
mod instances;
mod screen;
mod traffic;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};

use self::cosigners::Cosigners;
use self::home::Home;
use self::screen::Screen;
use self::traffic::Traffic;
use super::{failed, init};
use crate::config::{Config, Listen, LogSettings};
use crate::creation::Creation;
use crate::logging::Logging;
use crate::server::{self, Begin, Predecessor, Server};
use crate::{descriptors, listen, runtime};

const LISTEN: &str = "127.0.0.1:6962";

/// Options of `lucarne demo`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Directory of the demo, created if necessary [default: lucarne-demo, lucarne-demo-instances
    /// or lucarne-demo-witness]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Run N processes of one log, with a page that shows the leader
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=9))]
    pub instances: Option<u8>,

    /// Also run a witness and a mirror of the log, and show the checkpoints that each has cosigned
    #[arg(long, conflicts_with = "instances")]
    pub witness: bool,

    /// Address to listen on [default: 127.0.0.1:6962, or from the directory's lucarne.yaml]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// Submissions per second while the log runs; 0 for none [default: 1, or 10 with --instances]
    #[arg(long, value_name = "PER SECOND")]
    pub rate: Option<u32>,
}

impl Options {
    fn directory(&self) -> &Path {
        let usual = match self.instances {
            None if self.witness => "lucarne-demo-witness",
            None => "lucarne-demo",
            Some(_) => "lucarne-demo-instances",
        };
        self.dir.as_deref().unwrap_or(Path::new(usual))
    }
}

/// Runs the demo until a signal stops it.
pub(crate) fn run(options: &Options, logging: &Logging) -> ExitCode {
    let run = match options.instances {
        None => runtime::run(demo(options, logging)),
        Some(count) => runtime::run(instances::run(options, count.into())),
    };
    match run {
        Ok(()) => {
            let last =
                "Stopped; nothing that was submitted is lost. Start the demo again to continue.";
            // The terminal may be closed.
            let _ = writeln!(std::io::stdout(), "\n  {last}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("{error:#}")),
    }
}

async fn demo(options: &Options, logging: &Logging) -> Result<()> {
    let screen = Screen::new();
    let directory = options.directory();
    let first = !directory.join(home::CONFIGURATION).exists();
    let place = options.listen.as_deref().or(first.then_some(LISTEN));
    let listen = place.map(parse).transpose()?;
    if let Some(place) = &listen {
        // The address is tested before any file is created, because a used address is the most
        // likely failure.
        listen::bind(place, "--listen").await?;
    }
    screen.title(directory);
    let home = Home::open(directory)?;
    home.configure(listen.as_ref(), options.witness)?;
    let (mut config, log) = configuration(&home, &home.configuration())?;
    if let Some(listen) = listen {
        config.listen[0].value = listen;
    }
    descriptors::fit_connections(&mut config)?;
    let mut report = crate::config::Report::on(Some(&home.configuration()));
    let roots = server::read_roots(&config, &mut report);
    init::all(&config).await?;
    let base = format!("http://{}", reachable(&config.listen[0].value));
    let begin = Begin {
        creation: Creation::Done,
        tls: None,
        sockets: Vec::new(),
        predecessor: Predecessor::Nobody,
        file: None,
    };
    let cosigners = Cosigners::of(&config);
    let server = Server::start(config, roots, begin, logging).await?;
    let traffic = Traffic::new(home, &log, base)?;
    let rate = options.rate.unwrap_or(1);
    // The thread is not joined, because it ends with the process.
    std::thread::spawn(move || {
        if let Err(error) = traffic.show(&screen, rate, cosigners.as_ref()) {
            screen.trouble(&error);
        }
    });
    // The demo has no handover, so no other process follows the server.
    server.run().await.map(drop)
}

/// Parses `host:port` from the command line.
fn parse(text: &str) -> Result<Listen> {
    crate::config::listen(text).map_err(|why| anyhow!("--listen `{text}` {why}"))
}

/// Reads a configuration of the demo's directory, and returns it with the current log.
fn configuration(home: &Home, file: &Path) -> Result<(Config, LogSettings)> {
    let (config, report) = Config::read(file);
    anyhow::ensure!(
        report.problems().is_empty(),
        "{}\nremove {} to start again",
        report.problem_lines().join("\n"),
        home.directory().display()
    );
    let config = config.context("the configuration is empty")?;
    let name = home.log_name();
    let log = config.logs.iter().find(|log| log.shortname.value == name);
    let log = log
        .with_context(|| format!("the configuration has no log `{name}`"))?
        .clone();
    Ok((config, log))
}

/// Returns the address at which clients on this machine reach `place`.
fn reachable(place: &Listen) -> String {
    let address = place.addresses.first();
    match address.filter(|address| address.ip().is_unspecified()) {
        Some(address) => format!("127.0.0.1:{}", address.port()),
        None => place.to_string(),
    }
}
