//! The persistent instances of one agent, one a key.
//!
//! No lock is held over a spawn, a request or a kill. Tasks come one at a time, so the lock only guards
//! a map; what takes time is waited for outside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::child::{Key, Scope};
use agent_wire::child::{Hello, Request, Trigger};
use service_kit::clock::Clock;
use service_kit::lifecycle::Tasks;
use service_kit::pace::Backoff;
use service_kit::vars::Vars;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};
use uuid::Uuid;

use super::env::{self, For};
use super::instance::{Answered, Instance, Parts, Reason};
use super::stderr::{self, Tail};
use super::unix::{Group, Spawner};
use super::{Persistent, Spec, Verdict, seconds_left};

/// The first wait after a failed start, and the longest. Source: the process protocol, rule 4.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How many failing keys are remembered; a key can come from outside, so the number is bounded.
const MAX_FAILING: usize = 1024;

type Slot = (Scope, Key);

/// The instances of one agent.
pub(super) struct Pool {
    spec: Arc<Spec>,
    persistent: Persistent,
    spawner: Spawner,
    vars: Vars,
    clock: Clock,
    tasks: Tasks,
    backoff: Option<Backoff>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: BTreeMap<Slot, Held>,
    /// They count against `max_instances` until they are gone.
    retiring: Vec<Arc<Instance>>,
    failing: BTreeMap<Slot, Failing>,
}

struct Held {
    instance: Arc<Instance>,
    /// By the service's monotonic clock.
    used: Duration,
    requests: u64,
}

struct Failing {
    times: u32,
    until: Duration,
    last: String,
}

impl Pool {
    pub(super) fn new(
        spec: Arc<Spec>,
        persistent: Persistent,
        spawner: Spawner,
        vars: Vars,
        clock: Clock,
        tasks: Tasks,
    ) -> Self {
        let backoff = Backoff::new(BACKOFF.0, BACKOFF.1).ok();
        let state = Mutex::new(State::default());
        Self { spec, persistent, spawner, vars, clock, tasks, backoff, state }
    }

    /// The payload's field that selects the instance.
    pub(super) fn key_field(&self) -> Option<&str> {
        self.persistent.key.as_deref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the instance of this key, and returns what came of it.
    ///
    /// After a timeout, a stop, a loss or a fault of the protocol it returns when the group is gone.
    pub(super) async fn ask(
        &self,
        scope: Scope,
        key: Key,
        trigger: Trigger,
        deadline: Instant,
        stop: CancellationToken,
    ) -> Verdict {
        let slot = (scope, key);
        // Dead before the first byte: once more, on a fresh instance. Never after a byte was accepted.
        for _attempt in 0..2 {
            let (instance, id) = match self.instance(&slot, deadline, &stop).await {
                Ok(found) => found,
                Err(verdict) => return verdict,
            };
            let request = Request {
                id: id.to_string(),
                agent: self.spec.agent.clone(),
                deadline_seconds: seconds_left(deadline),
                trigger: trigger.clone(),
            };
            let line = with_newline(request.to_line());
            let asked = tokio::select! {
                biased;
                answered = instance.ask(request.id, line) => answered,
                () = stop.cancelled() => {
                    self.discard(&slot, &instance, Reason::Cancelled).await;
                    return Verdict::Stopped;
                }
                () = sleep_until(deadline) => {
                    self.discard(&slot, &instance, Reason::Timeout).await;
                    return Verdict::TimedOut;
                }
            };
            match asked {
                Answered::Response(response) => {
                    let success = response.is_success();
                    let exit_code = response.exit_code.unwrap_or_else(|| i32::from(!success));
                    return Verdict::Answered { exit_code, text: response.text().to_owned() };
                }
                Answered::Lost(why) => {
                    self.discard(&slot, &instance, Reason::Crashed).await;
                    return Verdict::Lost(why);
                }
                Answered::NotAccepted => self.discard(&slot, &instance, Reason::Crashed).await,
            }
        }
        Verdict::NotStarted("it died twice before it took the request".to_owned())
    }

    /// The live instance of a slot, and the number of the request; a new one if there is none.
    async fn instance(
        &self,
        slot: &Slot,
        deadline: Instant,
        stop: &CancellationToken,
    ) -> Result<(Arc<Instance>, u64), Verdict> {
        let now = self.clock.uptime();
        {
            let mut state = self.state();
            if let Some(held) = state.live.get_mut(slot).filter(|held| held.instance.is_live()) {
                held.used = now;
                held.requests = held.requests.saturating_add(1);
                return Ok((Arc::clone(&held.instance), held.requests));
            }
            if let Some(ended) = state.live.remove(slot) {
                state.retiring.push(ended.instance);
            }
            if let Some(failing) = state.failing.get(slot).filter(|failing| failing.until > now) {
                let wait = failing.until.saturating_sub(now).as_millis();
                return Err(Verdict::NotStarted(format!(
                    "{} (not tried again for {wait} ms)",
                    failing.last
                )));
            }
        }
        self.make_room().await;
        match self.start(slot, deadline, stop).await {
            Ok(instance) => {
                let instance = Arc::new(instance);
                let mut state = self.state();
                state.failing.remove(slot);
                let used = self.clock.uptime();
                let held = Held { instance: Arc::clone(&instance), used, requests: 1 };
                state.live.insert(slot.clone(), held);
                Ok((instance, 1))
            }
            Err(Verdict::NotStarted(why)) => {
                self.note_failure(slot, &why);
                Err(Verdict::NotStarted(why))
            }
            Err(verdict) => Err(verdict),
        }
    }

    /// Retires the least recently used instances until one more fits, and waits for them.
    async fn make_room(&self) {
        loop {
            let waited = {
                let mut state = self.state();
                state.retiring.retain(|instance| !instance.is_gone());
                let count = state.live.len().saturating_add(state.retiring.len());
                if count < self.persistent.max_instances {
                    return;
                }
                let oldest = state.live.iter().min_by_key(|(_, held)| held.used);
                if let Some(slot) = oldest.map(|(slot, _)| slot.clone())
                    && let Some(held) = state.live.remove(&slot)
                {
                    held.instance.retire(Reason::Evicted);
                    state.retiring.push(held.instance);
                }
                state.retiring.first().map(Arc::clone)
            };
            match waited {
                Some(instance) => instance.gone().await,
                None => return,
            }
        }
    }

    async fn start(
        &self,
        slot: &Slot,
        deadline: Instant,
        stop: &CancellationToken,
    ) -> Result<Instance, Verdict> {
        let (scope, key) = slot;
        let label = key.label();
        let tmp = tmp_folder(&self.spec).await.map_err(Verdict::NotStarted)?;
        let kind = For::Persistent { label: &label, source: *scope };
        let mut command = env::command(&self.spec, &self.vars, &self.clock, &tmp, kind);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = self.spawner.spawn(command).await;
        let program = self.spec.command.first().map_or("", String::as_str);
        let mut child =
            spawned.map_err(|error| Verdict::NotStarted(format!("{program}: {error}")))?;
        let group = Group::of(&child)
            .ok_or_else(|| Verdict::NotStarted(format!("{program} ended at once")))?;
        let (pid, tail) = (group.pid(), Tail::default());
        if let Some(from) = child.stderr.take() {
            let agent = self.spec.agent.clone();
            let drain = stderr::drain(from, tail.clone(), agent, label.clone(), pid);
            // Ends with the pipe; a grandchild that holds it must not hold the service.
            let span = info_span!(parent: None, "instance", agent = self.spec.agent, pid);
            let drain = until_hard_stop(self.tasks.hard_stop().clone(), drain);
            drop(self.tasks.spawn(drain.instrument(span)));
        }
        let hello = Hello { agent: self.spec.agent.clone(), key: label.clone() };
        let (instance, live, drive) = Instance::new(Parts {
            child,
            group,
            tail,
            hello: with_newline(hello.to_line()),
            label,
            agent: self.spec.agent.clone(),
            tmp,
            max_line_bytes: self.spec.max_line_bytes,
            grace: self.spec.grace,
            idle_timeout: self.persistent.idle_timeout,
            max_invocations: self.persistent.max_invocations,
        });
        // Not a part of the task that happened to need it first.
        let span = info_span!(parent: None, "instance", agent = self.spec.agent, pid);
        drop(self.tasks.spawn(drive.instrument(span)));
        let window = self.persistent.startup_timeout;
        let until = deadline.min(Instant::now() + window);
        let refused = tokio::select! {
            biased;
            live = live => match live {
                Ok(Ok(())) => return Ok(instance),
                Ok(Err(why)) => Verdict::NotStarted(why),
                Err(_ended) => Verdict::NotStarted("it ended before it was ready".to_owned()),
            },
            () = stop.cancelled() => Verdict::Stopped,
            () = sleep_until(until) => {
                let seconds = window.as_secs();
                Verdict::NotStarted(format!("it was not ready within {seconds} s"))
            }
        };
        instance.retire(Reason::Startup);
        instance.gone().await;
        Err(refused)
    }

    fn note_failure(&self, slot: &Slot, why: &str) {
        let now = self.clock.uptime();
        let mut state = self.state();
        let times = state.failing.get(slot).map_or(1, |failing| failing.times.saturating_add(1));
        // Half of the jitter's range: many services on one machine need not fail in step.
        let wait = self.backoff.as_ref().map_or(BACKOFF.0, |backoff| backoff.delay(times, 0.0));
        state.failing.retain(|_, failing| failing.until > now);
        if state.failing.len() >= MAX_FAILING {
            state.failing.pop_first();
        }
        let failing = Failing { times, until: now.saturating_add(wait), last: why.to_owned() };
        state.failing.insert(slot.clone(), failing);
    }

    async fn discard(&self, slot: &Slot, instance: &Arc<Instance>, reason: Reason) {
        {
            let mut state = self.state();
            if state.live.get(slot).is_some_and(|held| Arc::ptr_eq(&held.instance, instance)) {
                state.live.remove(slot);
            }
        }
        instance.retire(reason);
        instance.gone().await;
    }

    /// Retires all instances side by side, and waits until they are gone.
    pub(super) async fn close(&self) {
        let all = {
            let mut state = self.state();
            let live = std::mem::take(&mut state.live).into_values().map(|held| held.instance);
            let mut all: Vec<_> = live.collect();
            all.append(&mut state.retiring);
            all
        };
        for instance in &all {
            instance.retire(Reason::Shutdown);
        }
        for instance in &all {
            instance.gone().await;
        }
    }
}

async fn until_hard_stop(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
}

fn with_newline(line: String) -> Vec<u8> {
    let mut bytes = line.into_bytes();
    if bytes.last() != Some(&b'\n') {
        bytes.push(b'\n');
    }
    bytes
}

/// Makes the temporary folder of one instance; it is removed with the instance.
pub(super) async fn tmp_folder(spec: &Spec) -> Result<PathBuf, String> {
    let path = spec.state_dir.join("run").join(Uuid::new_v4().simple().to_string());
    let mut builder = tokio::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(&path)
        .await
        .map_err(|error| format!("cannot create {}: {error}", path.display()))?;
    Ok(path)
}
