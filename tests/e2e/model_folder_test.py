"""A model's folder, as people and attackers make them: what each file says counts, nothing outside the folder is read or
handed out, and what is missing or of another kind is told at once. Each key: docs/model-folder.md."""

import io
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

from harness import ROOT, SERVER, Answer, Server, free_port, grpc, main, pb

import vllm_contract

DEMO = ROOT / "configs/demo"
QUESTION = "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n"
END = 2047  # <|im_end|>


class FolderTestCase(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="quire_model_folder_"))
        self.addCleanup(shutil.rmtree, self.place)
        self.folder = self.place / "model"
        shutil.copytree(DEMO, self.folder)

    def change(self, name, **changes):
        """Merges into a JSON file; null removes a key."""
        path = self.folder / name
        value = {**json.loads(path.read_text()), **changes} if path.exists() else changes
        path.write_text(json.dumps({key: item for key, item in value.items() if item is not None}))

    def refused(self, *flags, folder=None):
        """The one line with which a start ends with 66."""
        result = subprocess.run([SERVER, "--host", "127.0.0.1", "--port", str(free_port()), "--model",
                                 str(folder or self.folder), *flags],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 66, result.stderr)
        lines = [line for line in result.stderr.splitlines() if line.startswith("quire-server: ")]
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0]

    def serve(self, *flags, folder=None):
        return Server("--model", str(folder or self.folder), *flags)


class LinkTest(FolderTestCase):
    """Links, which are as much the maker's word as what the files say."""

    def setUp(self):
        super().setUp()
        self.secret = self.place / "secret"
        self.secret.write_text('{"key": "0123456789abcdef"}')

    def test_no_file_that_a_start_reads_is_a_link_out_of_the_folder(self):
        for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                     "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "model.safetensors",
                     "additional_chat_templates/rag.jinja", "additional_chat_templates"):
            with self.subTest(name):
                path = self.folder / name
                kept = path.read_bytes() if path.is_file() else None
                path.parent.mkdir(exist_ok=True)
                path.unlink(missing_ok=True)
                target = self.place if name == "additional_chat_templates" else self.secret
                path.symlink_to(target)
                line = self.refused()
                for part in (f"{path} leads by a link to {target}, outside the model's folder", "cp -rL"):
                    self.assertIn(part, line)
                self.assertNotIn("0123456789abcdef", line)
                path.unlink()
                if "/" in name:
                    path.parent.rmdir()
                if kept is not None:
                    path.write_bytes(kept)

    def test_shards_stay_in_the_folder(self):
        (self.folder / "model.safetensors").rename(self.place / "model.safetensors")
        for name in ("../model.safetensors", str(self.place / "model.safetensors")):
            (self.folder / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {"model.norm.weight": name}}))
            self.assertIn("not the name of a .safetensors file in the same folder", self.refused())
        (self.folder / "x.safetensors").symlink_to(self.place / "model.safetensors")
        (self.folder / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"model.norm.weight": "x.safetensors"}}))
        self.assertIn("outside the model's folder", self.refused())

    def tokenizer_files(self, server):
        try:
            _, pb_grpc, common = vllm_contract.load()
        except ImportError as error:
            self.skipTest(f"{error}; tools/test installs tests/requirements-files.txt")
        stub = pb_grpc.VllmEngineStub(server.channel)
        return b"".join(chunk.data for chunk in stub.GetTokenizer(common.GetTokenizerRequest()))

    def test_clients_are_handed_files_of_the_folder_alone(self):
        for name in ("merges.txt", "x.model", "x.tiktoken", "x.jinja", "preprocessor_config.json"):
            with self.subTest(name):
                link = self.folder / name
                link.symlink_to(self.secret)
                with self.serve() as server:
                    for _ in range(3):
                        with self.assertRaises(grpc.RpcError) as caught:
                            self.tokenizer_files(server)
                        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
                        self.assertIn(f"{name} cannot be handed out", caught.exception.details())
                        self.assertNotIn(str(self.secret), caught.exception.details())
                    self.assertEqual(server.output().count(f"leads by a link to {self.secret}"), 1)
                link.unlink()

    def test_the_hubs_cache_is_a_folder_of_links(self):
        repository = self.place / "models--org--name"
        snapshot = repository / "snapshots/0123"
        snapshot.mkdir(parents=True)
        (repository / "blobs").mkdir()
        for number, path in enumerate(sorted(self.folder.iterdir())):
            path.rename(repository / "blobs" / str(number))
            (snapshot / path.name).symlink_to(f"../../blobs/{number}")
        link = self.place / "my-model"
        link.symlink_to(snapshot)
        for folder in (snapshot, repository, link):
            with self.subTest(folder), self.serve(folder=folder) as server:
                with zipfile.ZipFile(io.BytesIO(self.tokenizer_files(server))) as files:
                    self.assertEqual(files.read("tokenizer.json"), (DEMO / "tokenizer.json").read_bytes())


class FilesTest(FolderTestCase):
    def ask(self, server, **sampling):
        request = pb.GenerateRequest()
        request.text.text = QUESTION
        request.stop.max_tokens = 30
        request.output.return_token_ids = True
        for name, value in sampling.items():
            setattr(request.sampling, name, value)
        return Answer(server.inference.Generate(request))

    def test_the_tokenizers_files_end_an_answer(self):
        """None of the other files says which token does."""
        self.change("config.json", eos_token_id=None, torch_dtype=None)
        self.change("generation_config.json", eos_token_id=None)
        self.change("tokenizer_config.json", chat_template=None)
        text = (self.folder / "config.json").read_text()
        (self.folder / "config.json").write_text('{"time_step_limit": [0.0, Infinity], "x": NaN, ' + text[1:])
        with self.serve() as server:
            self.assertIn(END, server.inference.GetModel(pb.GetModelRequest()).eos_token_ids)
            answer = self.ask(server, temperature=0)
            self.assertEqual(answer.finished.finish_reason, pb.FINISH_REASON_STOP)
            self.assertIn("5", answer.text)
            output = server.output()
        self.assertIn("bfloat16", next(line for line in output.splitlines() if "ready on" in line))
        self.assertIn("the model has no chat template", output)

    def test_without_sampling_is_greedy_unless_a_request_samples(self):
        self.change("generation_config.json", do_sample=False, temperature=5.0, top_p=0.9, num_beams=4)
        with self.serve() as server:
            greedy = self.ask(server, temperature=0).ids
            self.assertEqual([self.ask(server).ids for _ in range(3)], [greedy] * 3)
            hot = {tuple(self.ask(server, temperature=5.0, seed=seed).ids) for seed in range(1, 4)}
            self.assertEqual(len(hot), 3)
            self.assertIn("generation_config.json: num_beams have no effect here", server.output())

    def test_what_is_missing_is_told_before_weights_are_read(self):
        (self.folder / "model.safetensors").write_bytes(b"damaged")
        (self.folder / "tokenizer.json").unlink()
        self.assertIn("has no tokenizer.json: copy it from", self.refused())
        (self.folder / "tokenizer.model").write_bytes(b"")
        self.assertIn("T.from_pretrained(", self.refused())

    def test_an_embedding_model_is_called_one(self):
        (self.folder / "modules.json").write_text("[]")
        self.assertIn("is an embedding model (modules.json of sentence-transformers)", self.refused())
        (self.folder / "modules.json").unlink()
        self.change("config.json", architectures=["Qwen3Model"])
        self.assertIn("/v1/embeddings is not there yet", self.refused())

    def test_a_context_beyond_longropes_original_is_told(self):
        factors = [1.0] * 16
        self.change("config.json", architectures=["Phi3ForCausalLM"], model_type="phi3", head_dim=None, hidden_size=128,
                    original_max_position_embeddings=1024,
                    rope_scaling={"type": "longrope", "short_factor": factors, "long_factor": factors})
        flags = ("--load-format", "dummy", "--skip-tokenizer-init")
        for more, told in (((), True), (("--max-model-len", "1024"), False)):
            with self.serve(*flags, *more) as server:
                self.assertEqual("longrope's long factors hold at every position" in server.output(), told)


if __name__ == "__main__":
    main()
