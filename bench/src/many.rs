//! The cost of many logs in one process that receive no submissions.

use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use lucarne_mint::testing::Pki;
use lucarne_testkit::{Client, Launch, Place, Server, TempDir, free_port, usage};

use crate::{
    Common,
    add_chain::wait,
    table::{Row, print},
};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time of the work that follows the last submission: rounds, and the cutting of journals.
const REST: Duration = Duration::from_secs(5);

#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of logs
    #[arg(long, default_value_t = 40)]
    logs: usize,
    /// Number of retired logs among them
    #[arg(long, default_value_t = 20)]
    retired: usize,
    /// Number of entries in each of the other logs
    #[arg(long, default_value_t = 20)]
    entries: usize,
    /// Duration of the measured time in seconds
    #[arg(long, default_value_t = 30)]
    duration: u64,
}

pub(crate) fn run(common: &Common, options: &Options) -> Result<()> {
    let on_disk = measure(common, options, &Place::directory())?;
    print(&title(options, "a disk, the lock in SQLite"), &on_disk);
    let place = wait(Place::s3_alone())??;
    let in_bucket = measure(common, options, &place)?;
    print(&title(options, "a bucket, the lock in it"), &in_bucket);
    Ok(())
}

fn title(options: &Options, place: &str) -> String {
    format!(
        "{} logs on {place}, {} of them retired, {} entries in each of the others, idle for {} s",
        options.logs, options.retired, options.entries, options.duration
    )
}

fn measure(common: &Common, options: &Options, place: &Place) -> Result<Vec<Row>> {
    let directory = TempDir::new()?;
    let binary = std::path::absolute(&common.binary)?;
    let address = ([127, 0, 0, 1], free_port()).into();
    configure(directory.path(), options, place, address)?;
    let launch = |arguments: &[&str]| {
        let launch = Launch::new(&binary).args(arguments);
        let environment = place.environment.iter();
        environment
            .fold(launch, |launch, (name, value)| launch.env(name, value))
            .directory(directory.path())
            .pin(common.server_core)
            .patience(READY_TIMEOUT)
    };
    let made = launch(&["init", "-c", "lucarne.yaml"]).run()?;
    ensure!(
        made.status.success(),
        "`lucarne init` failed ({}):\n{}",
        made.status,
        String::from_utf8_lossy(&made.stderr)
    );
    let began = Instant::now();
    let server = launch(&["serve", "-c", "lucarne.yaml"]).start(address)?;
    let client = Client::new(format!("http://{address}"));
    wait(ready(&client))
        .and_then(|ready| ready)
        .with_context(|| {
            format!(
                "cannot start the log; the server printed:\n{}",
                server.output()
            )
        })?;
    let started = began.elapsed().as_secs_f64();
    wait(fill(&client, options))
        .and_then(|filled| filled)
        .with_context(|| {
            format!(
                "cannot fill the logs; the server printed:\n{}",
                server.output()
            )
        })?;
    // The work that follows the submissions is not a cost of an idle process.
    sleep(REST);
    let requests = wait(store_requests(&client))??;
    let (before, began) = (usage(server.pid())?, Instant::now());
    // The measured time.
    sleep(Duration::from_secs(options.duration));
    let (after, seconds) = (usage(server.pid())?, began.elapsed().as_secs_f64());
    let requests = wait(store_requests(&client))?? - requests;
    let cpu = (after.cpu_us - before.cpu_us) as f64 / 1e4 / seconds;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let mut rows = vec![
        Row::new("all well after", format!("{started:.1} s")),
        Row::at_most("memory", megabytes(after.rss), "MB", 400.0),
        Row::new(
            "at its peak",
            format!("{:.1} MB", megabytes(after.peak_rss)),
        ),
        Row::at_most("CPU, of a core", cpu, "%", 1.0),
        Row::new(
            "written a second",
            written(after.written - before.written, seconds),
        ),
        Row::new("threads", threads(&server)?.to_string()),
        Row::new(
            "descriptors",
            count(&format!("/proc/{}/fd", server.pid()))?.to_string(),
        ),
    ];
    if requests > 0 {
        let idle = (options.logs - options.retired).max(1) as f64;
        let what = "requests to the store in five seconds, of an idle log";
        rows.push(Row::at_most(
            what,
            5.0 * requests as f64 / seconds / idle,
            "",
            1.0,
        ));
    }
    Ok(rows)
}

fn written(bytes: u64, seconds: f64) -> String {
    format!("{:.0} kB", bytes as f64 / 1e3 / seconds)
}

fn threads(server: &Server) -> Result<usize> {
    count(&format!("/proc/{}/task", server.pid()))
}

fn count(directory: &str) -> Result<usize> {
    Ok(fs::read_dir(directory)?.count())
}

fn name(number: usize) -> String {
    format!("log{number:02}")
}

/// Writes the configuration. A log is retired if its window has long passed.
fn configure(
    directory: &Path,
    options: &Options,
    place: &Place,
    address: std::net::SocketAddr,
) -> Result<()> {
    fs::write(directory.join("roots.pem"), Pki::shared().roots_pem())?;
    let checkpoints = &place.checkpoints;
    let mut text = format!("listen: [\"{address}\"]\ncheckpoints: {checkpoints}\nlogs:\n");
    for number in 0..options.logs {
        let name = name(number);
        let seed = directory.join(format!("{name}.seed"));
        // Each log has its own key.
        let mut secret = [7; 32];
        secret[..8].copy_from_slice(&(number as u64).to_be_bytes());
        fs::write(&seed, secret)?;
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&seed, own)?;
        let window = if number < options.retired {
            "notafterstart: 2020-01-01T00:00:00Z\nnotafterlimit: 2021-01-01T00:00:00Z\n"
        } else {
            ""
        };
        let settings = format!(
            "shortname: {name}\nsubmissionprefix: http://{address}/{name}\n\
             monitoringprefix: http://{address}/{name}\nsecret: {name}.seed\n\
             cache: cache/{name}\nroots: roots.pem\n{}{window}",
            place.data(&name)
        );
        for (n, line) in settings.lines().enumerate() {
            text += if n == 0 { "  - " } else { "    " };
            text = text + line + "\n";
        }
    }
    fs::write(directory.join("lucarne.yaml"), text)?;
    Ok(())
}

async fn ready(client: &Client) -> Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let said = client.get("health").await;
        if said.as_ref().is_ok_and(|answer| answer.status == 200) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the server is not healthy after {READY_TIMEOUT:?}: {said:?}"
        );
        // Polls `/health`, as any monitor does.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the number of requests that the process has sent to object stores so far.
async fn store_requests(client: &Client) -> Result<u64> {
    let metrics = client.get("metrics").await?.text();
    let lines = metrics.lines();
    let counters = lines.filter(|line| line.starts_with("lucarne_store_requests_total{"));
    let counts = counters.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

/// Submits the same chains to all logs that accept submissions.
async fn fill(client: &Client, options: &Options) -> Result<()> {
    let pki = Pki::shared();
    for number in 0..options.entries {
        let chain = pki.certificate(&pki.p256, &format!("host-{number}.example"))?;
        for log in options.retired..options.logs {
            let path = format!("{}/ct/v1/add-chain", name(log));
            client.post(&path, chain.to_json()).await?.ok()?;
        }
    }
    Ok(())
}
