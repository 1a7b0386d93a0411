//! The scripted agent of a test: what it did, and when it may go on.

use std::fs;
use std::path::{Path, PathBuf};

use crate::wait;

/// The directory through which a test and its `scripted-agent` processes talk.
#[derive(Debug, Clone)]
pub struct Agent {
    dir: PathBuf,
}

impl Agent {
    /// The agent of this directory.
    pub fn new(dir: PathBuf) -> Self {
        fs::create_dir_all(&dir).expect("create the agent's directory");
        Self { dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every line that was appended, in order: `begin TASK TEXT` and `end TASK TEXT`.
    pub fn effects(&self) -> Vec<String> {
        lines(&self.dir.join("effects"))
    }

    /// The process IDs of all agents that were started.
    pub fn starts(&self) -> Vec<String> {
        lines(&self.dir.join("starts"))
    }

    /// How often a task was begun.
    pub fn begun(&self, task: &str) -> usize {
        let begin = format!("begin {task} ");
        self.effects().iter().filter(|line| line.starts_with(&begin)).count()
    }

    /// The texts of the tasks that were begun, in order.
    pub fn order(&self) -> Vec<String> {
        let begun = |line: &String| {
            let (_, text) = line.strip_prefix("begin ")?.split_once(' ')?;
            Some(text.to_owned())
        };
        self.effects().iter().filter_map(begun).collect()
    }

    /// Waits until a task was begun.
    #[track_caller]
    pub fn wait_begun(&self, task: &str) {
        wait::until(&format!("task {task} is begun"), || (self.begun(task) > 0).then_some(()));
    }

    /// Lets `block NAME` go on, now and later.
    pub fn release(&self, name: &str) {
        fs::write(self.dir.join(format!("release-{name}")), "").expect("release an agent");
    }
}

fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
