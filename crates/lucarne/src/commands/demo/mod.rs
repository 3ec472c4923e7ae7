//! `lucarne demo`: everything a log needs, in one directory and one command.

mod authorities;
mod half;
mod home;
mod screen;
mod traffic;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};

use self::home::Home;
use self::screen::Screen;
use self::traffic::Traffic;
use super::{failed, init};
use crate::config::{Config, Listen, LogSettings};
use crate::logging::Logging;
use crate::server::{self, Creation, Server};
use crate::{listen, runtime};

const LISTEN: &str = "127.0.0.1:6962";

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Directory of the demo: made, or opened again
    #[arg(long, value_name = "DIR", default_value = "lucarne-demo")]
    pub dir: PathBuf,

    /// Where to listen [default: 127.0.0.1:6962, or as in the directory's lucarne.yaml]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// Submissions a second once it runs; 0 for none
    #[arg(long, value_name = "PER SECOND", default_value_t = 1)]
    pub rate: u32,
}

/// Runs the demo until a signal asks to stop.
pub(crate) fn run(options: &Options, logging: &Logging) -> ExitCode {
    match runtime::run(demo(options, logging)) {
        Ok(()) => {
            let last = "Stopped; nothing that was submitted is lost. Start it again to go on.";
            // The terminal may be what has gone.
            let _ = writeln!(std::io::stdout(), "\n  {last}");
            ExitCode::SUCCESS
        }
        Err(error) => failed(format_args!("{error:#}")),
    }
}

async fn demo(options: &Options, logging: &Logging) -> Result<()> {
    let screen = Screen::new();
    let first = !options.dir.join(home::CONFIGURATION).exists();
    let place = options.listen.as_deref().or(first.then_some(LISTEN));
    let listen = place.map(parse).transpose()?;
    if let Some(place) = &listen {
        // The likeliest thing to fail: tried before anything is made.
        listen::bind(place, "--listen").await?;
    }
    screen.title(&options.dir);
    let home = Home::open(&options.dir, listen.as_ref())?;
    let (mut config, log) = configuration(&home)?;
    if let Some(listen) = listen {
        config.listen[0].value = listen;
    }
    let mut report = crate::config::Report::on(Some(&home.configuration()));
    let roots = server::read_roots(&config, &mut report);
    init::all(&config).await?;
    let base = format!("http://{}", reachable(&config.listen[0].value));
    let server = Server::start(config, roots, Creation::Done, None, logging).await?;
    let traffic = Traffic::new(home, &log, base)?;
    let rate = options.rate;
    // A thread that nobody waits for: it ends with the process.
    std::thread::spawn(move || {
        if let Err(error) = traffic.show(&screen, rate) {
            screen.trouble(&error);
        }
    });
    server.run().await
}

/// `host:port`, from the command line.
fn parse(text: &str) -> Result<Listen> {
    crate::config::listen(text).map_err(|why| anyhow!("--listen `{text}` {why}"))
}

/// The configuration in the demo's directory, and its log for today.
fn configuration(home: &Home) -> Result<(Config, LogSettings)> {
    let (config, report) = Config::read(&home.configuration());
    anyhow::ensure!(
        report.problems().is_empty(),
        "{}\nremove {} to begin anew",
        report.problem_lines().join("\n"),
        home.directory().display()
    );
    let config = config.context("there is no configuration")?;
    let name = home.log_name();
    let log = config.logs.iter().find(|log| log.shortname.value == name);
    let log = log
        .with_context(|| format!("there is no log `{name}`"))?
        .clone();
    Ok((config, log))
}

/// Returns the address at which a client on this machine reaches what listens at `place`.
fn reachable(place: &Listen) -> String {
    let address = place.addresses.first();
    match address.filter(|address| address.ip().is_unspecified()) {
        Some(address) => format!("127.0.0.1:{}", address.port()),
        None => place.to_string(),
    }
}
