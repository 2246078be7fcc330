"""init.from: runs that start from the weights of a Hugging Face folder, in every form of such folders."""

import json
import os
import re
import shutil
import struct

import harness
from harness import LLMC, RunTest
from saved_weights import TIED

FUSED = {
    "self_attn.qkv_proj.": ("self_attn.q_proj.", "self_attn.k_proj.", "self_attn.v_proj."), "mlp.gate_up_proj.":
    ("mlp.gate_proj.", "mlp.up_proj.")
}

GLM4 = ("model.norm_place=sandwich", "model.partial_rotary_factor=0.4", "model.rope_interleaved=true",
        "model.attention_out_bias=false")
GLM4_NAMES = {
    "input_layernorm": "input_layernorm", "post_attention_layernorm": "post_self_attn_layernorm",
    "pre_feedforward_layernorm": "post_attention_layernorm", "post_feedforward_layernorm": "post_mlp_layernorm",
    "mlp.gate_proj": "mlp.gate_up_proj", "mlp.down_proj": "mlp.down_proj"
}
NANOCHAT = ("model.norm_weight=none", "model.qk_norm=true", "model.qk_norm_place=after_rope",
            "model.embedding_norm=true", "model.hidden_act=relu2", "model.mlp_gated=false")
NANOCHAT_NAMES = {"mlp.up_proj": "mlp.fc1", "mlp.down_proj": "mlp.fc2", "self_attn.o_proj": "self_attn.o_proj"}


def read_tensors(path):
    """name -> (dtype, shape, bytes)"""
    data = harness.read(path)
    (size, ) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {
        name:
        (entry["dtype"], entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def write_tensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def fuse(tensors):
    """As stored by Phi 3 and others: q, k, v stacked, and gate, up."""
    result = {}
    for name, tensor in tensors.items():
        for fused, parts in FUSED.items():
            for part in parts:
                if part not in name:
                    continue
                pieces = [tensors[name.replace(part, each)] for each in parts]
                result[name.replace(part, fused)] = (tensor[0], [sum(piece[1][0] for piece in pieces)] + tensor[1][1:],
                                                     b"".join(piece[2] for piece in pieces))
                break
            else:
                continue
            break
        else:
            result[name] = tensor
    return result


def floats(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 4}f", tensor[2])


class InitFrom(RunTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.spec = harness.write_small(cls.folder)
        cls.trainer = cls.compile(cls.spec, "trainer")
        cls.first = os.path.join(cls.folder, "first")
        done = harness.call(cls.trainer, "--run", cls.first, "--steps", "3")
        if done.code:
            raise AssertionError(done.out + done.err)
        cls.checkpoint = os.path.join(cls.first, "checkpoints", "step-00000003")
        cls.weights = read_tensors(os.path.join(cls.checkpoint, "model.safetensors"))

    def folder_of(self, name, tensors, files=1):
        """A Hugging Face folder: config.json, and the tensors in `files` files."""
        folder = self.path(name)
        os.makedirs(folder)
        shutil.copy(os.path.join(self.checkpoint, "config.json"), folder)
        if files == 1:
            write_tensors(os.path.join(folder, "model.safetensors"), tensors)
            return folder
        names = sorted(tensors)
        index = {}
        for i in range(files):
            file = f"model-{i + 1:05}-of-{files:05}.safetensors"
            write_tensors(os.path.join(folder, file), {tensor: tensors[tensor] for tensor in names[i::files]})
            index.update({tensor: file for tensor in names[i::files]})
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as out:
            json.dump(
                {"metadata": {"total_size": sum(len(tensor[2]) for tensor in tensors.values())}, "weight_map": index},
                out)
        return folder

    def trained(self, folder, name, *words, trainer=None):
        run = self.path(name)
        done = self.succeed(trainer or self.trainer, "--run", run, "--steps", "3", "init.from=" + folder, *words)
        return run, done

    def same_training(self, ours, theirs):
        self.assert_same_files(os.path.join(ours, "checkpoints"), os.path.join(theirs, "checkpoints"), ours)
        metrics = [
            harness.without_timing(harness.json_lines(os.path.join(run, "metrics.jsonl"))) for run in (ours, theirs)
        ]
        self.assertEqual(*metrics)

    def refused(self, folder, *facts, code=6, trainer=None):
        run = self.path("refused")
        done = harness.call(trainer or self.trainer, "--run", run, "--steps", "1", "init.from=" + folder)
        self.assertEqual((done.code, os.path.exists(run)), (code, False), done.err)
        self.assert_facts(done.err, *facts)
        return done.err

    def test_not_finite(self):
        """Detected before the run folder is created."""
        name = "model.layers.1.mlp.up_proj.weight"
        dtype, shape, data = self.weights[name]
        for number in ("inf", "nan"):
            folder = self.folder_of(
                "with-" + number, {**self.weights, name: (dtype, shape, data[:-4] + struct.pack("<f", float(number)))})
            self.refused(folder, f"'{os.path.join(folder, 'model.safetensors')}': ", f"'{name}'", "not finite")

    def test_forms(self):
        """fp32 in every form gives the same run as llmc's own checkpoint, byte for byte."""
        own, done = self.trained(self.checkpoint, "own")
        self.assertIn(f"weights 42 tensors of '{self.checkpoint}' (F32)", done.out)
        self.assertNotIn("begins near", done.out)
        drawn = harness.json_lines(os.path.join(self.first, "metrics.jsonl"))[0]["loss"]
        self.assertNotEqual(harness.json_lines(os.path.join(own, "metrics.jsonl"))[0]["loss"], drawn)
        # The weights were loaded before the first step: the loss on data that no step has used is the checkpoint's.
        self.succeed(LLMC, "checkpoint", "export", self.first, "-o", self.path("exported"))
        for name, folder in (("of-run", self.first), ("of-export", self.path("exported")),
                             ("of-shards", self.folder_of("shards", self.weights,
                                                          files=3)), ("of-fused",
                                                                      self.folder_of("fused", fuse(self.weights))),
                             ("of-fused-shards", self.folder_of("fused-shards", fuse(self.weights), files=4)),
                             ("of-more",
                              self.folder_of("more", {
                                  **self.weights, "model.layers.0.self_attn.rotary_emb.inv_freq":
                                  ("F32", [5], bytes(20))
                              }))):
            run, done = self.trained(folder, name)
            self.same_training(run, own)
        ranks = [
            self.trained(folder, "ranks-" + name, "--ranks", "2")[0]
            for name, folder in (("own", self.checkpoint), ("fused", self.path("fused-shards")))
        ]
        self.same_training(*ranks)

    def test_half_precision(self):
        """fp16 and bf16 stand for exact values: the run equals one from a file with them in fp32."""

        def numbers(name):
            # fp16 subnormal numbers, both zeros, the largest and the smallest ones too.
            bits = [0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x83ff, 0x0001, 0x1234, 0x2e66
                    ] if name == "model.embed_tokens.weight" else []
            return [struct.unpack("<e", struct.pack("<H", b))[0] for b in bits]

        for dtype in ("F16", "BF16"):
            half, full = {}, {}
            for name, tensor in self.weights.items():
                values = list(floats(tensor))
                values[:len(numbers(name))] = numbers(name)
                if dtype == "F16":
                    stored = struct.pack(f"<{len(values)}e", *values)
                    exact = struct.unpack(f"<{len(values)}e", stored)
                else:
                    words = [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]
                    stored = struct.pack(f"<{len(values)}H", *words)
                    exact = [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words]
                half[name] = (dtype, tensor[1], stored)
                full[name] = ("F32", tensor[1], struct.pack(f"<{len(values)}f", *exact))
            ours, done = self.trained(self.folder_of(dtype, fuse(half), files=2), "run-" + dtype)
            self.assertIn(f"({dtype})", done.out)
            theirs, _ = self.trained(self.folder_of(dtype + "-as-F32", full), "run-of-F32-" + dtype)
            self.same_training(ours, theirs)

    def test_what_a_run_keeps(self):
        """history.jsonl records the source of weights; a resumed run does not need the folder."""
        folder = self.folder_of("gone", self.weights)
        run, _ = self.trained(folder, "goes-on")
        shutil.rmtree(folder)
        done = self.succeed(self.trainer, "--run", run, "--steps", "6")
        self.assertNotIn("\nweights ", done.out)
        history = harness.json_lines(os.path.join(run, "history.jsonl"))
        self.assertEqual([line.get("weights") for line in history], [folder, None])
        self.assertIn(f"init:\n  from: {os.path.relpath(folder, run)}\n",
                      harness.read(os.path.join(run, "spec.yaml")).decode())
        self.assertNotIn(b"from:", harness.read(os.path.join(run, "checkpoints", "step-00000006", "spec.yaml")))
        whole, _ = self.trained(self.checkpoint, "at-once")
        self.succeed(self.trainer, "--run", whole, "--steps", "6")
        self.same_training(run, whole)
        self.refused(folder, "no folder", f"'{folder}'")

    def test_refused(self):
        name = "model.layers.1.mlp.up_proj.weight"
        dtype, shape, data = self.weights[name]
        without = {key: value for key, value in self.weights.items() if key != name}
        cases = (("missing", without, f"tensor '{name}', "),
                 ("extra", {**self.weights, "model.layers.3.mlp.up_proj.weight":
                            (dtype, shape, data)}, "'model.layers.3.mlp.up_proj.weight' is not"),
                 ("outside", {**self.weights, "score.weight": (dtype, shape, data)}, "'score.weight' is not"),
                 ("misshapen", {**without, name: (dtype, [shape[1], shape[0]], data)},
                  f"'{name}' is [36, 50]"), ("flat", {**without, name: (dtype, [1800], data)}, f"'{name}' is [1800]"),
                 ("double", {**without, name:
                             ("F64", [50, 18], data)}, f"'{name}' is F64"), ("half", {
                                 **{
                                     key: value
                                     for key, value in fuse(self.weights).items() if "layers.1.mlp.gate_up" not in key
                                 }, "model.layers.1.mlp.gate_up_proj.weight": (dtype, shape, data)
                             }, "gate_up_proj.weight' is [50, 36]"),
                 ("both", {**self.weights, "model.layers.1.mlp.gate_up_proj.weight":
                           ("F32", [100, 36], data + data)}, "gate_up_proj.weight' is not"))
        for case, tensors, said in cases:
            error = self.refused(self.folder_of("refused-" + case, tensors), said)
            if case != "missing":
                self.assertIn(os.path.join(self.path("refused-" + case), "model.safetensors"), error)
        folder = self.folder_of("index", self.weights, files=2)
        index = os.path.join(folder, "model.safetensors.index.json")
        good = json.loads(harness.read(index))
        for change, said in (({name: "../model-00001-of-00002.safetensors"},
                              "weight_map names"), ({name: "/dev/zero"}, "weight_map names"), ({name:
                                                                                                7}, "is not text"),
                             ({name: "model-00003-of-00002.safetensors"}, "model-00003-of-00002.safetensors"),
                             ({name: [f for f in set(good["weight_map"].values()) if f != good["weight_map"][name]][0]},
                              f"tensor '{name}' in "), ({"nobody":
                                                         "model-00001-of-00002.safetensors"}, "tensor 'nobody' in ")):
            with open(index, "w") as file:
                json.dump({"weight_map": {**good["weight_map"], **change}}, file)
            self.refused(folder, said)
        with open(index, "w") as file:
            file.write('{"weight_map": {"a": "b"')
        self.refused(folder, "JSON at byte")
        # A model that was saved anew in one file leaves an index, which counts for nothing.
        whole = os.path.join(folder, "model.safetensors")
        write_tensors(whole, self.weights)
        self.succeed(LLMC, "check", self.spec, "init.from=" + folder)
        self.same_training(self.trained(folder, "saved-anew")[0], self.trained(self.checkpoint, "as-saved")[0])
        os.remove(whole)
        os.remove(index)
        self.refused(folder, f"'{folder}'", "model-00001-of-00002.safetensors", "model.safetensors.index.json")
        for i in (1, 2):
            os.remove(os.path.join(folder, f"model-{i:05}-of-00002.safetensors"))
        self.refused(folder, f"'{folder}'", "neither", "model.safetensors", "model.safetensors.index.json")
        for name in ("pytorch_model.bin",
                     "pytorch_model.bin.index.json"):  # before anything is compiled, and with the command that converts
            with open(os.path.join(folder, name), "w"):
                pass
            error = self.refused(folder, f"'{folder}'", "weights", name)
            self.assertIn(f"save_pretrained(sys.argv[1])' {folder}\n", error)
            self.assertEqual(harness.call(LLMC, "check", self.spec, "init.from=" + folder).code, 6)
            os.remove(os.path.join(folder, name))
        os.remove(os.path.join(folder, "config.json"))
        self.refused(folder, "config.json")

    def test_another_model(self):
        folder = self.folder_of("another", self.weights)
        config = json.loads(harness.read(os.path.join(folder, "config.json")))
        for key, value, said in (("rms_norm_eps", 1e-6, "model.rms_norm_eps 1e-06 -> 1e-05"),
                                 ("num_hidden_layers", 2, "model.num_hidden_layers 2 -> 3"),
                                 ("hidden_act", "gelu", "hidden_act"), ("num_attention_heads", 12,
                                                                        "model.num_attention_heads 12 -> 6")):
            with open(os.path.join(folder, "config.json"), "w") as file:
                json.dump({**config, key: value}, file)
            self.refused(folder, said)
            if key != "hidden_act":  # before anything is compiled, too
                done = harness.call(LLMC, "check", self.spec, "init.from=" + folder)
                self.assertEqual(done.code, 6, done.out + done.err)
                self.assertIn(said, done.err)
        # Positions divided by 1 are no other ones, and an export does not say so.
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        self.succeed(LLMC, "check", self.spec, "init.from=" + folder, "model.rope_scaling={type: linear, factor: 1}")
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump({**config, "num_attention_heads": 12}, file)
        done = harness.call(LLMC, "run", self.spec, "-o", self.path("never-built"), "init.from=" + folder, "--",
                            "--run", self.path("never-run"))
        self.assertEqual((done.code, os.path.exists(self.path("never-built"))), (6, False), done.err)

    def test_tied(self):
        """A folder may contain the head in addition to tied embeddings, if it equals the embedding."""
        path = self.path("tied.yaml")
        with open(path, "w") as file:
            file.write(TIED)
        trainer, run = self.compile(path, "tied"), self.path("tied-run")
        self.succeed(trainer, "--run", run, "--steps", "3")
        checkpoint = os.path.join(run, "checkpoints", "step-00000003")
        weights = read_tensors(os.path.join(checkpoint, "model.safetensors"))
        self.assertNotIn("lm_head.weight", weights)
        embedding = weights["model.embed_tokens.weight"]
        own, _ = self.trained(checkpoint, "tied-own", trainer=trainer)
        other = (embedding[0], embedding[1], embedding[2][4:] + embedding[2][:4])
        for name, head in (("tied-head", embedding), ("tied-other", other)):
            folder = self.folder_of(name, {**weights, "lm_head.weight": head})
            shutil.copy(os.path.join(checkpoint, "config.json"), folder)
            if name == "tied-head":
                self.same_training(self.trained(folder, name + "-run", trainer=trainer)[0], own)
            else:
                self.refused(folder, "model.tie_word_embeddings", trainer=trainer)
        # Types may differ, values may not: bf16 values, once with the head as fp32 and once with one value more exact.
        words = [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in floats(embedding)]
        rounded = {
            **weights, "model.embed_tokens.weight": ("BF16", embedding[1], struct.pack(f"<{len(words)}H", *words))
        }
        exact = struct.pack(f"<{len(words)}I", *(word << 16 for word in words))
        for name, head in (("tied-types", exact), ("tied-finer", exact[:-4] + struct.pack("<I", words[-1] << 16 | 1))):
            folder = self.folder_of(name, {**rounded, "lm_head.weight": ("F32", embedding[1], head)})
            shutil.copy(os.path.join(checkpoint, "config.json"), folder)
            if name == "tied-types":
                self.trained(folder, name + "-run", trainer=trainer)
            else:
                self.refused(folder, "lm_head.weight", "model.tie_word_embeddings", trainer=trainer)

    def test_several_parts(self):
        """The language model of a folder with other parts is found by its prefix, and what is under it is complete."""
        image = {"vision_tower.conv.weight": ("F32", [2], bytes(8)), "vision_tower.count": ("I64", [1], bytes(8))}
        head = self.weights["lm_head.weight"]
        body = {name: tensor for name, tensor in self.weights.items() if name != "lm_head.weight"}

        def under(prefix):
            return {prefix + name.removeprefix("model."): tensor for name, tensor in body.items()}

        own, _ = self.trained(self.checkpoint, "parts-own")
        old = {**under("language_model.model."), "language_model.lm_head.weight": head, **image}
        for name, prefix, tensors in (("older", "language_model.model.", old),
                                      ("newer", "model.language_model.",
                                       {**under("model.language_model."), "lm_head.weight": head,
                                        **image}), ("fused-part", "language_model.model.", fuse(old))):
            run, done = self.trained(self.folder_of(name, tensors, files=2), "parts-" + name)
            self.assertRegex(done.out, rf"\nweights .* {re.escape(prefix)}\*; 2 of other parts")
            self.same_training(run, own)
        lost = "language_model.model.layers.1.mlp.up_proj.weight"
        self.refused(self.folder_of("lost", {name: tensor
                                             for name, tensor in old.items() if name != lost}), f"'{lost}'")
        more = "language_model.model.layers.3.mlp.up_proj.weight"
        self.refused(self.folder_of("surplus", {**old, more: old[lost]}), f"'{more}' is not")
        self.refused(self.folder_of("ambiguous", {**old, "other.model.embed_tokens.weight": ("F32", [2], bytes(8))}),
                     "'model.embed_tokens.weight'")

    def test_families_with_a_form_of_their_own(self):
        """Exports of GLM-4 and nanochat have transformers' names, one tensor for gate and up, and the other sign where the model
        rotates by minus the angle. They are read back to the same training; a checkpoint is read as it is."""
        for name, words, names in (("glm4", GLM4, GLM4_NAMES), ("nanochat", NANOCHAT, NANOCHAT_NAMES)):
            trainer, run = self.compile(self.spec, name, *words), self.path(name + "-run")
            self.succeed(trainer, "--run", run, "--steps", "3")
            checkpoint, export = os.path.join(run, "checkpoints", "step-00000003"), self.path(name + "-export")
            own = read_tensors(os.path.join(checkpoint, "model.safetensors"))
            self.succeed(LLMC, "checkpoint", "export", run, "-o", export, "--dtype", "fp32")
            theirs = read_tensors(os.path.join(export, "model.safetensors"))
            for part, other in names.items():
                ours = own[f"model.layers.1.{part}.weight"]
                expected = fuse(own)[f"model.layers.1.{other}.weight"] if other.endswith("gate_up_proj") else ours
                self.assertEqual(theirs[f"model.layers.1.{other}.weight"], expected, part)
            for part in ("q_proj.weight", "k_proj.weight", "q_proj.bias", "v_proj.bias"):
                key = "model.layers.2.self_attn." + part
                values, width = floats(own[key]), own[key][1][1] if part.endswith("weight") else 1
                if name == "nanochat" and not part.startswith("v"):
                    values = [-v if i // width % 10 >= 5 else v for i, v in enumerate(values)]
                self.assertEqual(list(floats(theirs[key])), list(values), key)
            again = [self.trained(folder, f"{name}-{i}", trainer=trainer)[0] for i, folder in enumerate((run, export))]
            self.same_training(*again)
            (loss, ) = {
                json.loads(self.succeed(trainer, "evaluate", "--json", "--checkpoint", folder).out)["loss"]
                for folder in (run, export)
            }
            metrics = harness.json_lines(os.path.join(run, "metrics.jsonl"))
            self.assertEqual(loss, metrics[-1]["val_loss"])
            # llmc's names beside a config.json are not those of the family.
            folder = self.path(name + "-own-names")
            os.makedirs(folder)
            for file in ("config.json", "model.safetensors"):
                shutil.copy(os.path.join(checkpoint, file), folder)
            self.refused(folder, "has tensor", trainer=trainer)

    def test_init_writes_it(self):
        """llmc init of a model with weights makes a spec that starts from them; of a config.json only, one that draws.
        """
        folder = self.folder_of("Some Model", self.weights)
        config = json.loads(harness.read(os.path.join(folder, "config.json")))
        with open(os.path.join(folder, "config.json"),
                  "w") as file:  # values possible in the GPU spec that llmc init writes
            json.dump({**config, "attention_bias": False, "head_dim": 16}, file)
        os.makedirs(self.path("specs"))
        spec = self.path("specs", "mine.yaml")
        self.succeed(LLMC, "init", "--from", folder, "-o", spec, cwd=self.folder)
        text = harness.read(spec).decode()
        self.assertIn('\n  from: "../Some Model"  # ', text)
        words = ("target.kind=cpu", "precision.compute=fp32", "batch.sequence_length=24", "batch.micro_batch=2",
                 "batch.tokens=96", "memory.budget=256MiB")
        done = self.succeed(LLMC, "check", spec, *words)
        self.assertNotIn("init.from", done.err)
        bare = self.path("bare")
        os.makedirs(bare)
        shutil.copy(os.path.join(folder, "config.json"), bare)
        self.assertNotIn("from:", self.succeed(LLMC, "init", "--from", bare).out)
        self.assertNotIn("from:", self.succeed(LLMC, "init", "--from", os.path.join(folder, "config.json")).out)
        for name, said in (("pytorch_model.bin", f"save_pretrained(sys.argv[1])' {bare}\n"),
                           ("pytorch_model.bin.index.json", f"save_pretrained(sys.argv[1])' {bare}\n"),
                           ("consolidated.safetensors", "names"), ("adapter_model.safetensors", "adapter"),
                           ("pytorch_model.safetensors", "model.safetensors.index.json"), ("a.Q4_K_M.gguf",
                                                                                           "safetensors")):
            with open(os.path.join(bare, name), "w"):
                pass
            done = self.succeed(LLMC, "init", "--from", bare)
            self.assertRegex(done.out, rf"\n# .*weights .*{re.escape(name)} ")
            self.assertRegex(done.err, rf"note: .*weights .*{re.escape(bare)}/{re.escape(name)} ")
            self.assertIn(said, done.err)
            os.remove(os.path.join(bare, name))
        self.assertEqual(self.succeed(LLMC, "init", "--from", folder).err, "")
        shutil.rmtree(folder)
        self.assertIn("warning: init.from: ", self.succeed(LLMC, "check", spec, *words).err)

    def test_incomplete_download(self):
        """Parts of the weights are refused by init too: a spec without init.from would start from random ones."""
        folder = self.folder_of("partial", self.weights, files=3)
        index, last = "model.safetensors.index.json", "model-00003-of-00003.safetensors"
        os.remove(os.path.join(folder, last))
        config = json.loads(harness.read(os.path.join(folder, "config.json")))
        with open(os.path.join(folder, "config.json"), "w") as file:  # a model that the GPU spec of llmc init may have
            json.dump({**config, "attention_bias": False, "head_dim": 16}, file)

        def init(code, *facts):
            done = harness.call(LLMC, "init", "--from", folder)
            self.assertEqual((done.code, done.out == ""), (code, code != 0), done.err)
            self.assert_facts(done.err, *facts)

        for found, missing in ((index, last), ("model-00001-of-00003.safetensors", index)):
            init(6, f"'{folder}' has {found} ", missing)
            self.refused(folder, f"'{folder}' has {found} ", missing)
            if found == index:
                os.remove(os.path.join(folder, index))
        self.assertNotIn("from:", self.succeed(LLMC, "init", "--from", os.path.join(folder, "config.json")).out)
        for i in (1, 2):
            os.rename(os.path.join(folder, f"model-{i:05}-of-00003.safetensors"),
                      os.path.join(folder, f"pytorch_model-{i:05}-of-00003.bin"))
        init(6, f"'{folder}' has pytorch_model-00001-of-00003.bin ", "pytorch_model.bin.index.json")


if __name__ == "__main__":
    harness.main()
