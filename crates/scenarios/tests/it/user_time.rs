//! Targets that stop responding, or that request waits, in both models.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_load::executor::{ArrivalRateOptions, Rate};
use lucarne_load::plan::Plan;
use lucarne_load::snapshot::Phase;
use lucarne_load::threshold::ThresholdResult;
use lucarne_load::{
    ExecutorConfig, Metric, Run, Running, Scenario, ScenarioConfig, Snapshot, Verdict,
};
use lucarne_scenarios::ct;
use lucarne_settings::Report;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::ct_scenarios::Logs;
use crate::hostile::{Hostile, head};

/// Responds to this number of requests; further requests have no response.
fn hangs_after(requests: u64) -> Hostile {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let seen = Arc::new(AtomicU64::new(0));
    Hostile::start(move |mut stream| {
        let seen = seen.clone();
        async move {
            loop {
                head(&mut stream).await?;
                if seen.fetch_add(1, Ordering::Relaxed) >= requests {
                    std::future::pending::<()>().await;
                }
                stream.write_all(OK).await.ok()?;
            }
        }
    })
}

fn crossed(thresholds: &[ThresholdResult]) -> Vec<&str> {
    let crossed = thresholds.iter().filter(|it| !it.passed);
    crossed.map(|it| it.metric.as_str()).collect()
}

#[test]
fn a_server_that_hangs_fails_in_both_models() {
    for (executor, expected) in [
        ("executor: constant-vus\n    vus: 2", true),
        (
            "executor: constant-arrival-rate\n    rate: 1000\n    maxVUs: 4\n    minAchieved: 0",
            false,
        ),
    ] {
        // Enough responses that the counts of failures stay below their thresholds.
        let server = hangs_after(600);
        let yaml = format!(
            "scenarios:\n  s:\n    scenario: rest\n    {executor}\n    duration: 3s\n    \
             gracefulStop: 7s\n    options: {{ url: \"http://{}/\" }}\n",
            server.address
        );
        let mut report = Report::on(None);
        let kinds = lucarne_scenarios::scenarios();
        let plan = Plan::parse(&yaml, &kinds, &|_| None, &mut report);
        let plan = plan.unwrap_or_else(|| panic!("{:#?}", report.problem_lines()));
        let outcome = crate::finished(plan.into_run(7).unwrap());
        assert_eq!(outcome.verdict, Verdict::Crossed, "{executor}");
        let crossed = crossed(&outcome.summary.thresholds);
        let lost = crossed.contains(&"vu_time_lost{scenario:s}");
        assert_eq!(lost, expected, "{crossed:?}");
        assert!(
            crossed.contains(&"target_silent{scenario:s}"),
            "{crossed:?}"
        );
        assert!(!crossed.contains(&"checks"), "{crossed:?}");
    }
}

/// Starts a reverse proxy of a log, which responds with 503 and a wait of a day from the time at
/// which the flag is set.
async fn pushback(log: SocketAddr, pushes_back: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let pushes_back = pushes_back.clone();
            let service = service_fn(move |request| forward(request, log, pushes_back.clone()));
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    url
}

async fn forward(
    request: Request<Incoming>,
    log: SocketAddr,
    pushes_back: Arc<AtomicBool>,
) -> Result<Response<Either<Incoming, Full<Bytes>>>, Infallible> {
    if pushes_back.load(Ordering::Relaxed) {
        let response = Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .header("retry-after", "86400");
        return Ok(response.body(Either::Right(Full::default())).unwrap());
    }
    let stream = TcpStream::connect(log).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    Ok(response.map(Either::Left))
}

/// Waits until a snapshot of the run meets the condition.
async fn eventually(running: &Running, what: &str, met: impl Fn(&Snapshot) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !met(&running.snapshot()) {
        assert!(
            Instant::now() < deadline,
            "{what}: {:?}",
            running.snapshot()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_stops_accepting_fails_in_both_models() {
    let site = Logs::start(&["a"], |_| {}).await;
    let pushes_back = Arc::new(AtomicBool::new(false));
    let log = site.log(pushback(site.address, pushes_back.clone()).await);
    let write = ct::write::CtWriteOptions {
        log: log.clone(),
        ..site.write("a")
    };
    let read = ct::read::CtReadOptions {
        log,
        ..site.read("a")
    };
    let duration = Duration::from_secs(600);
    let closed = ExecutorConfig::ConstantVus {
        vus: 2,
        duration,
        iterations: None,
    };
    let open = ExecutorConfig::ConstantArrivalRate {
        rate: Rate::per_second(20.0),
        duration,
        options: ArrivalRateOptions::default(),
    };
    let writes = || ct::write::build(write.clone(), 1).unwrap();
    let reads = || ct::read::build(read.clone(), 1).unwrap();
    let config = |name: &str, executor: &ExecutorConfig, scenario: Arc<dyn Scenario>| {
        let mut config = ScenarioConfig::new(name, executor.clone(), scenario);
        // Longer than a tenth of the time before the pushback, even on a slow machine.
        config.graceful_stop = Duration::from_secs(4);
        config
    };
    let run = Run {
        scenarios: vec![
            config("write-users", &closed, writes()),
            config("write-rate", &open, writes()),
            config("read-users", &closed, reads()),
            config("read-rate", &open, reads()),
        ],
        ..Run::default()
    };
    let running = run.start();
    eventually(&running, "all scenarios have started", |snapshot| {
        let mut scenarios = snapshot.scenarios.iter();
        snapshot.phase == Phase::Running && scenarios.all(|it| it.started_total > 10)
    })
    .await;
    pushes_back.store(true, Ordering::Relaxed);
    eventually(&running, "all users wait", |snapshot| {
        let mut scenarios = snapshot.scenarios.iter();
        scenarios.all(|it| it.busy > 0 && it.iterations == 0.0)
    })
    .await;
    running.stop();
    eventually(&running, "the load is over", |snapshot| {
        snapshot.phase == Phase::Finishing
    })
    .await;
    // The audit of a log that does not respond takes long.
    running.stop();
    let outcome = tokio::task::spawn_blocking(|| running.wait())
        .await
        .unwrap();
    let expected = ["write-users", "write-rate", "read-users", "read-rate"];
    let expected = expected.map(|name| format!("vu_time_throttled{{scenario:{name}}}"));
    let crossed = crossed(&outcome.summary.thresholds);
    let throttled = crossed.iter().filter(|it| it.starts_with("vu_time_"));
    assert!(throttled.eq(expected.iter()), "{crossed:?}");
    let all = outcome.summary.total("vu_time_throttled");
    assert!(matches!(all, Some(Metric::Rate { good, .. }) if good > 4000));
}
